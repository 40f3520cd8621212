/** What a command costs from its start to its end, and fifty of them at once. */
import { spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { queueName, withStore } from '../store.mjs'

const program = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

/** A bare Node, `--version` and `status` on a store with work in it, in turns; medians of each in ms. */
export function startCommands({ times }) {
  return withStore({ items: 1000 }, async (store) => {
    const env = { ...process.env, HOLDFAST_URL: store, HOLDFAST_AGENT: 'bench', NO_COLOR: '1' }
    const commands = { bare: ['-e', '0'], version: [program, '--version'], status: [program, 'status'] }
    const taken = { bare: [], version: [], status: [] }
    for (let time = 0; time < times; time++) {
      for (const [name, args] of Object.entries(commands)) {
        const started = performance.now()
        const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8' })
        taken[name].push(performance.now() - started)
        if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr}`)
      }
    }
    return taken
  })
}

/** Each adds or claims. Measures how long each took from its start, and checks that nothing was lost. */
export function manyCommands({ commands }) {
  return withStore({ items: commands }, async (store) => {
    const env = { ...process.env, HOLDFAST_URL: store, HOLDFAST_AGENT: 'bench' }
    const run = (...args) =>
      new Promise((resolve, reject) => {
        const started = performance.now()
        const child = spawn(process.execPath, [program, ...args, '--json'], {
          env,
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        let text = ''
        child.stdout.on('data', (data) => {
          text += data
        })
        child.once('close', (code) => {
          if (code === 0) resolve({ ms: performance.now() - started, answer: JSON.parse(text) })
          else reject(new Error(`${args.join(' ')} ended with ${code}: ${text}`))
        })
      })
    const all = await Promise.all(
      Array.from({ length: commands }, (_, number) =>
        number % 2 === 0 ? run('queue', 'add', 'added', String(number)) : run('queue', 'next', queueName),
      ),
    )
    const ids = new Set(all.map(({ answer }) => answer.item.id))
    if (ids.size !== commands) throw new Error(`${commands - ids.size} commands got the same item`)
    return { times: all.map(({ ms }) => ms) }
  })
}
