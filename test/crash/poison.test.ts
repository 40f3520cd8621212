/**
 * One poison item among a hundred, with real processes that a supervisor starts again: the poison is quarantined, every
 * other item completes, in bounded time. HOLDFAST_TEST_POISON=all runs every combination (`npm run test:poison`).
 */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { ownServer } from './server-store.ts'
import { type Actor, audit, countById, newStore, openHere, print, startProgram, until } from './support.ts'

const isWhole = process.env.HOLDFAST_TEST_POISON === 'all'
const itemCount = 100
/**
 * Three crashes of its own, with waits of 0 and 5 s between them, and a restart after each crash: 6 to 11 s. On a machine
 * with ten other things to do a process takes that long to start.
 */
const boundMs = 150_000

interface Cell {
  readonly concurrency: number
  readonly processes: number
}

const cells: readonly Cell[] = isWhole
  ? [1, 5, 50].flatMap((concurrency) => [1, 3].map((processes) => ({ concurrency, processes })))
  : [{ concurrency: 5, processes: 1 }]

describe('sqlite', () => poisonAmong(newStore))
if (isWhole) {
  describe('postgres', () => {
    const own = ownServer()
    poisonAmong(() => own.newStore())
  })
}

function poisonAmong(createStore: () => string): void {
  test.each(cells)(
    'one poison item among 100, concurrency $concurrency, $processes processes: 99 completed, 1 quarantined [S5-1]',
    async ({ concurrency, processes }) => {
      const store = createStore()
      const hf = await openHere(store)
      const kinds = Array.from({ length: itemCount }, (_, number) => (number === 30 ? 'poison' : 'plain'))
      const { ids } = await hf.queue('jobs').addMany(kinds.map((kind) => ({ payload: { kind } })))
      const startedAt = performance.now()

      const supervisor = supervise(store, { concurrency, processes })
      const over = until('everything is completed or quarantined', () => isOver(hf), { patience: boundMs })
      await over.catch(async (error) => {
        throw new Error(
          `${error.message}: ${JSON.stringify(await hf.queue('jobs').stats())}, ${supervisor.crashes} crashes`,
        )
      })
      await supervisor.stop()

      const { completed, quarantined, pending, processing } = await hf.queue('jobs').stats()
      const blamed = (await hf.queue('jobs').list({ quarantined: true })).items.map(({ id }) => id)
      print(`${Math.round(performance.now() - startedAt)} ms, ${supervisor.crashes} crashes`)
      expect({ completed, quarantined, processing }).toEqual({ completed: 99, quarantined: 1, processing: 0 })
      expect(pending).toBe(0)
      expect(blamed).toEqual([ids[30]])
      expect(countById(await audit(hf), 'item.completed').size).toBe(99)
    },
    boundMs + 20_000,
  )
}

test('fifty healthy long items of a killed worker all run again at once, and none is blamed [S5-1]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const long = Array.from({ length: 50 }, () => ({ payload: { kind: 'long' } }))
  const { ids } = await hf.queue('jobs').addMany(long)
  const worker = await startWorker(store, 50)
  await until('the worker holds all of them', async () => (await hf.queue('jobs').stats()).processing === 50)
  const heir = await startWorker(store, 50)

  const killedAt = performance.now()
  worker.kill()
  await until('the heir runs all of them', () => heir.all('handling').length === 50)

  print(`all fifty ran again after ${Math.round(performance.now() - killedAt)} ms`)
  const items = (await hf.queue('jobs').list({ limit: 100 })).items
  expect(items.map(({ id }) => id).sort()).toEqual([...ids].sort())
  expect(items.filter(({ crashes, suspectedAt }) => crashes > 0 || suspectedAt !== null)).toEqual([])
})

async function isOver(hf: Holdfast): Promise<boolean> {
  const { completed, quarantined } = await hf.queue('jobs').stats()
  return completed + quarantined === itemCount
}

function startWorker(store: string, concurrency: number): Promise<Actor> {
  return startProgram('poisoned', { env: { STORE: store, CONCURRENCY: String(concurrency) } })
}

/** Keeps so many workers running: one that dies is restarted. */
function supervise(store: string, { concurrency, processes }: Cell) {
  let isStopped = false
  let crashes = 0
  const keepRunning = async () => {
    while (!isStopped) {
      const worker = await startWorker(store, concurrency).catch(() => null)
      if (worker === null) {
        crashes++
        continue
      }
      if (isStopped) return worker.kill()
      running.add(worker)
      await worker.ended({ patience: 2 * boundMs })
      running.delete(worker)
      if (!isStopped) crashes++
    }
  }
  const running = new Set<Actor>()
  const keepers = Array.from({ length: processes }, keepRunning)
  return {
    get crashes() {
      return crashes
    },
    async stop() {
      isStopped = true
      for (const worker of running) worker.kill()
      await Promise.all(keepers)
    },
  }
}
