/**
 * The benchmark: npm run bench -- [--only id,id] [--rounds N] [--json FILE] [--markdown] [--smoke]
 *
 * Ours and theirs take turns, each sample in a fresh process on a fresh store; medians of the rounds are shown, with
 * the lowest and highest. A missed goal is not a failure: the exit code is 1 only when something could not be
 * measured at all.
 */
import { fork } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { Peers } from './peers/find.mjs'
import { Postgres } from './postgres/server.mjs'
import { formatMarkdown, formatTable, summarise } from './report.mjs'
import { cases } from './rows.mjs'
import { samples } from './samples/index.mjs'

const roundsDefault = 5
const sizes = {
  whole: { isSmoke: false, warmMs: 500, warmJobs: 2000, measureMs: 1500 },
  smoke: { isSmoke: true, warmMs: 0, warmJobs: 0, measureMs: 50 },
}

const options = {
  only: { type: 'string' },
  rounds: { type: 'string' },
  json: { type: 'string' },
  markdown: { type: 'boolean', default: false },
  smoke: { type: 'boolean', default: false },
}

await main()

async function main() {
  const { values } = parseArgs({ options })
  // Node would read every certificate in this file whenever a process starts. Where there is one, a bare Node took twice
  // as long, and every row that compares with it looked better than it was.
  delete process.env.NODE_EXTRA_CA_CERTS
  const size = values.smoke ? sizes.smoke : sizes.whole
  const rounds = values.smoke ? 1 : readRounds(values.rounds)
  const measure = values.smoke ? (name, parameters) => samples[name](parameters) : measureApart
  const peers = new Peers({ isWanted: !values.smoke })
  const postgres = new Postgres()
  const rows = []
  try {
    for (const { id, run } of chooseCases(values.only)) {
      process.stderr.write(`${id} …\n`)
      try {
        rows.push(
          ...(await run({ rounds, size, measure, peers, postgres })).map((row) => summarise(row, size)),
        )
      } catch (error) {
        process.exitCode = 1
        console.error(`${id} could not be measured:`, error)
      }
    }
  } finally {
    await peers.stop()
    await postgres.stop()
  }
  if (values.smoke)
    console.log('A smoke run: it shows that every row can be measured; the figures mean nothing.\n')
  console.log(values.markdown ? formatMarkdown(rows) : formatTable(rows))
  if (values.json) writeFileSync(values.json, `${JSON.stringify(rows, null, 2)}\n`)
}

function readRounds(text) {
  const rounds = text === undefined ? roundsDefault : Number(text)
  if (Number.isInteger(rounds) && rounds > 0) return rounds
  throw new Error(`--rounds must be a whole number above 0, not ${text}`)
}

function chooseCases(only) {
  if (only === undefined) return cases
  const ids = only.split(',')
  const unknown = ids.find((id) => !cases.some((each) => each.id === id))
  if (unknown === undefined) return cases.filter(({ id }) => ids.includes(id))
  throw new Error(`unknown id ${unknown}; the ids are ${cases.map(({ id }) => id).join(', ')}`)
}

/** In a separate process: what one sample leaves in memory must not slow down the next. */
function measureApart(name, parameters) {
  return new Promise((resolve, reject) => {
    const child = fork(new URL('./sample.mjs', import.meta.url), [name, JSON.stringify(parameters)])
    let result
    child.on('message', (message) => {
      result = message
    })
    child.on('error', reject)
    child.on('exit', (code, signal) => {
      if (result !== undefined && code === 0) resolve(result)
      else reject(new Error(`the sample ${name} ended with ${signal ?? code}`))
    })
  })
}
