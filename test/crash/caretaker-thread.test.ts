/** The thread that renews and heals: its death is healed, and it says when its process hangs. */
import type { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { claimed } from '../support/outcomes.ts'
import { openRaw } from '../support/sqlite-file.ts'
import { expectSound, isRenewed, newStore, openHere, seeHealing, until } from './support.ts'

/** Renewed every 3 s. */
const leaseMs = 9000
const recovery = { onClaim: false, everyMs: 100 }

test('when the caretaker thread dies, another takes over renewal and recovery [X6] [Q13]', async () => {
  const { logger, named } = collectLogs()
  const thread = nextThread()
  const startedAt = performance.now()
  const hf = await openHere(newStore(), { logger, recovery })
  await hf.queue('q').add('work')
  // open() waits for its thread, and another may take longer to load: after two thirds of the lease it is too late.
  const loadingMs = performance.now() - startedAt
  const { item, lease } = await claimed(
    hf.queue('q').next({ leaseMs: Math.max(leaseMs, Math.ceil(6 * loadingMs)) }),
  )
  await seeHealing(hf)

  end(await thread)

  expect(await isRenewed(hf, item)).toBe(true)
  await seeHealing(hf)
  expect(lease?.isHeld).toBe(true)
  expect(named('renew.failed')).toEqual([
    { name: 'renew.failed', level: 'error', facts: { leases: 1, error: 'its thread was ended' } },
  ])
  expectSound(hf.status.location)
})

test('a thread that cannot open its store says why, and is started again until it can [X6] [Q13]', async () => {
  const store = newStore()
  const { logger, named } = collectLogs()
  const thread = nextThread()
  const hf = await openHere(store, { logger, leaseMs, recovery })
  await seeHealing(hf)
  const mend = makeUnfit(store)

  end(await thread)
  await until('two threads have failed', () => named('renew.failed').length >= 2)
  mend()

  await seeHealing(hf)
  expect(named('renew.failed')[1]).toEqual({
    name: 'renew.failed',
    level: 'error',
    facts: { leases: 0, error: expect.stringContaining('9999') },
  })
})

test('a process that hung learns of it when its event loop runs again [X6]', async () => {
  const { logger, named } = collectLogs()
  const hf = await openHere(newStore(), { logger, recovery, wedgedAfterMs: 1000 })
  await seeHealing(hf)
  await hf.queue('q').add('work')
  await claimed(hf.queue('q').next())

  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000)
  await until('it was told', () => named('process.wedged').length > 0)

  const [line] = named('process.wedged')
  expect(line).toEqual({
    name: 'process.wedged',
    level: 'error',
    facts: { silentForMs: expect.any(Number), leases: 1 },
  })
  expect(line?.facts.silentForMs).toBeGreaterThanOrEqual(1000)
})

test('a lease granted while the thread sleeps is renewed, although the program then blocks [S5e-6]', async () => {
  const hf = await openHere(newStore(), { recovery: false, redelivery: false })
  await hf.queue('q').add('work')
  // It has looked at everything by now, and sleeps.
  await hf.queue('empty').next({ waitMs: 500 })
  const { lease } = await claimed(hf.queue('q').next({ leaseMs: 900 }))

  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2700)

  expect(lease?.isHeld).toBe(true)
})

test('a process that was busy while its thread started is not taken for a hung one [X6]', async () => {
  const { logger, named } = collectLogs()
  const thread = nextThread()
  const opening = openHere(newStore(), { logger, recovery })
  await thread

  // Its thread is at work long before this process hears of it.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500)
  const hf = await opening
  await seeHealing(hf)

  expect(named('process.wedged')).toEqual([])
})

/** From within: ended from outside in the middle of a call, the driver would take the whole process along. */
function end(thread: Worker): void {
  thread.postMessage('stop')
}

function nextThread(): Promise<Worker> {
  return new Promise((resolve) => process.once('worker', resolve))
}

/** Whoever opens it now takes it for a store of a later version. */
function makeUnfit(store: string): () => void {
  const setVersion = (version: number): number => {
    const database = openRaw(store)
    const [row] = database.prepare('pragma user_version').all() as { user_version: number }[]
    database.exec(`pragma user_version = ${version}`)
    database.close()
    return row?.user_version ?? 0
  }
  const fit = setVersion(9999)
  return () => setVersion(fit)
}
