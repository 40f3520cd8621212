/** A program may pass one signal to everything it calls, and keep it for as long as it runs. */
import { getEventListeners } from 'node:events'
import type { Holdfast } from 'holdfast'
import { expect, onTestFinished, test } from 'vitest'
import { forEachEngine } from '../support/stores.ts'

const waitMs = 600_000

/** Calls that wait until their signal fires. */
const waits: Readonly<Record<string, (hf: Holdfast, signal: AbortSignal) => Promise<unknown>>> = {
  next: (hf, signal) => hf.queue('jobs').next({ waitMs, signal }),
  claimNext: (hf, signal) => hf.tasks.claimNext({ waitMs, signal }),
  acquireLock: (hf, signal) => hf.locks.acquireLock('deploy', { waitMs, signal }),
  idle: (hf, signal) => hf.work('paused', () => {}).idle({ signal }),
  work: (hf, signal) => hf.work('jobs', () => {}, { signal }).idle(),
  events: async (hf, signal) => {
    for await (const _ of hf.events({ signal }));
  },
  'state.watch': async (hf, signal) => {
    for await (const _ of hf.state('doc').watch({ signal }));
  },
  'fleet.watch': async (hf, signal) => {
    for await (const _ of hf.fleet.watch({ signal }));
  },
}

forEachEngine((engine) => {
  test.each(Object.keys(waits))('%s: any number of calls listen to one signal once', async (call) => {
    const { hf, env } = await engine.open()
    const holder = await hf.locks.acquireLock('deploy', { agent: 'holder' })
    await hf.queue('paused').add(null)
    await hf.queue('paused').pause()
    const { signal, ...controller } = aController()

    const asked = Array.from({ length: 15 }, () => waits[call]?.(hf, signal))
    await env.advance(3_000)
    const listeners = getEventListeners(signal, 'abort').length
    controller.abort()
    await Promise.allSettled(asked)

    expect(holder.outcome).toBe('acquired')
    expect(listeners).toBe(1)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('a long-lived signal keeps nothing of the calls it was passed to', async () => {
    const { hf, env } = await engine.open()
    await hf.locks.acquireLock('deploy', { agent: 'holder', leaseMs: 3_600_000 })
    const { signal } = new AbortController()

    for (let round = 0; round < 3; round++) {
      const asked = [
        hf.queue('jobs').next({ waitMs: 5_000, signal }),
        hf.locks.acquireLock('deploy', { waitMs: 5_000, signal }),
        hf.locks.runBatch(`run ${round}`, ['a'], () => {}, { signal }),
      ]
      await env.advance(6_000)
      await Promise.all(asked)
    }

    expect(derivedFrom(signal)).toBe(0)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('any number of runners of a batch, each listening to its signal, cause no warning', async () => {
    const { hf, env } = await engine.open()
    const items = Array.from({ length: 40 }, (_, index) => `item ${index}`)
    const warnings: string[] = []
    const note = ({ message }: Error) => warnings.push(message)
    process.on('warning', note)
    onTestFinished(() => void process.off('warning', note))

    let isOver = false
    const running = hf.locks
      .runBatch(
        'all',
        items,
        (_, { signal }) =>
          new Promise<void>((resolve) => {
            const done = () => {
              signal.removeEventListener('abort', done)
              resolve()
            }
            signal.addEventListener('abort', done)
            env.timer(100, done)
          }),
        { concurrency: 20 },
      )
      .finally(() => {
        isOver = true
      })
    while (!isOver) await env.advance(100)

    expect(await running).toMatchObject({ outcome: 'completed' })
    expect(warnings).toEqual([])
  })
})

function aController() {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}

/** Node counts here the signals that `AbortSignal.any` derived from a signal. */
function derivedFrom(signal: AbortSignal): number {
  const symbol = Object.getOwnPropertySymbols(signal).find(
    ({ description }) => description === 'kDependantSignals',
  )
  return symbol === undefined ? 0 : ((signal as unknown as Record<symbol, Set<unknown>>)[symbol]?.size ?? 0)
}
