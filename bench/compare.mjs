/**
 * Compares the processor time of calls between builds, in turns and in one process, so that it holds on a busy machine:
 * node bench/compare.mjs add,claim,set,update,lock 40 ../before . (each work tree built; the first is the base)
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const [names = 'add,claim,set,update,lock', rounds = '40', ...trees] = process.argv.slice(2)
const callers = 10
const payload = { kind: 'build', repository: 'example/shop', branch: 'fix/checkout-total', number: 1 }

const cases = {
  add: { block: 400, warm: 4000, call: ({ queue }) => queue.add(payload) },
  claim: {
    block: 400,
    warm: 4000,
    async fill({ queue }, items) {
      for (let added = 0; added < items; added += 1000)
        await queue.addMany(Array.from({ length: 1000 }, () => ({ payload })))
    },
    async call({ queue }) {
      const { item } = await queue.next()
      await queue.complete(item.id)
    },
  },
  set: { block: 1000, warm: 8000, call: ({ hf }, caller) => hf.state(`key-${caller}`).set({ n: 1 }) },
  update: {
    block: 600,
    warm: 6000,
    call: ({ hf }, caller) => hf.state(`key-${caller}`).update((value) => ({ n: (value?.n ?? 0) + 1 })),
  },
  lock: {
    block: 500,
    warm: 5000,
    async call({ hf }, caller) {
      await hf.locks.acquireLock(`lock-${caller}`)
      await hf.locks.releaseLock(`lock-${caller}`)
    },
  },
}

const folder = mkdtempSync(join(tmpdir(), 'holdfast-compare-'))
for (const name of names.split(',')) await compare(name, cases[name])
rmSync(folder, { recursive: true, force: true })

async function compare(name, { block, warm, fill, call }) {
  const sides = []
  for (const [index, tree] of trees.entries()) {
    const { open } = await import(pathToFileURL(resolve(tree, 'dist/index.js')).href)
    const hf = await open(join(folder, `${name}-${index}.db`), { durability: 'normal' })
    const side = { tree, hf, queue: hf.queue('bench'), costs: [] }
    await side.queue.define()
    await fill?.(side, warm + block * (Number(rounds) + 1))
    await run(side, warm)
    sides.push(side)
  }
  for (let round = 0; round < Number(rounds); round++)
    for (let turn = 0; turn < sides.length; turn++) {
      const side = sides[(round + turn) % sides.length]
      const before = process.cpuUsage()
      await run(side, block)
      const { user, system } = process.cpuUsage(before)
      side.costs.push((user + system) / block)
    }
  for (const { tree, hf, costs } of sides) {
    const ratio = median(costs.map((cost, round) => cost / sides[0].costs[round]))
    console.log(`${name}\t${tree}\t${median(costs).toFixed(1)} µs\t${ratio.toFixed(2)}×`)
    await hf.close()
  }

  async function run(side, count) {
    let left = count
    const loop = async (_, caller) => {
      while (left-- > 0) await call(side, caller)
    }
    await Promise.all(Array.from({ length: callers }, loop))
  }
}

function median(values) {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.floor(sorted.length / 2)]
}
