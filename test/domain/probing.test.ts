/** When a process that leaves probing to another looks next. Its seat is given; no store is needed for that. */
import { expect, test } from 'vitest'
import type { Environment, ProberSeat } from '../../src/environment.ts'
import { systemEnvironment } from '../../src/host/system.ts'
import { Probing } from '../../src/runtime/caretaker/probing.ts'

const probeEveryMs = 250
const now = 1_000_000

interface Given {
  /** Whether this process is told when the prober is gone. */
  readonly isHeard: boolean
  readonly isHolding?: boolean
  readonly probeEveryMs?: number
}

/** A watcher that has just looked; `gone`: what its seat calls when the prober is gone. */
async function watcher(given: Given) {
  const told = { gone: () => {}, woken: 0 }
  const seat: ProberSeat = {
    read: () => ({ id: 'prober', pid: 1, startTime: null, beatAt: now }),
    write: () => expect.unreachable('another process probes'),
    serve: () => {},
    watch: (_record, gone) => {
      told.gone = gone
      return given.isHeard
    },
    leave: () => {},
    isAble: () => true,
    close: () => {},
  }
  const environment: Environment = {
    ...systemEnvironment,
    monotonic: () => now,
    random: () => 0.5,
    host: { ...systemEnvironment.host, proberSeat: () => seat },
  }
  const probing = new Probing(environment, {
    probeEveryMs: given.probeEveryMs ?? probeEveryMs,
    storeId: () => 'a store',
    instance: () => 'self',
    own: () => expect.unreachable('another process probes'),
    others: () => expect.unreachable('another process probes'),
    isHolding: () => given.isHolding === true,
    missing: () => Promise.resolve(),
    wake: () => {
      told.woken++
    },
  })
  if (given.probeEveryMs !== 0) await probing.look()
  return { probing, told, inMs: () => probing.nextAt - now }
}

test('a watcher connected to the prober sleeps for two seconds [S5e-6]', async () => {
  expect((await watcher({ isHeard: true })).inMs()).toBe(2_000)
})

test('one that is not connected watches the prober itself [S5e-6]', async () => {
  expect((await watcher({ isHeard: false })).inMs()).toBe(probeEveryMs)
})

test('one that holds something looks as often as if it were not connected [S5e-6]', async () => {
  expect((await watcher({ isHeard: true, isHolding: true })).inMs()).toBe(probeEveryMs)
})

test('once the connection breaks, it looks within a tenth of a second [S5e-6]', async () => {
  const { told, inMs } = await watcher({ isHeard: true })

  told.gone()

  expect({ inMs: inMs(), woken: told.woken }).toEqual({ inMs: 50, woken: 1 })
})

test('one that does not probe never looks, even while it holds something [S5e-6]', async () => {
  const given = { isHeard: true, isHolding: true, probeEveryMs: 0 }

  expect((await watcher(given)).inMs()).toBe(Number.POSITIVE_INFINITY)
})
