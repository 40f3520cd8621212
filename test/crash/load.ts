/** Processes that put a store under load, and what must hold of it afterwards. */
import type { Holdfast, OpenOptions } from 'holdfast'
import { expect } from 'vitest'
import type { Server } from '../support/server.ts'
import { wholeAudit } from './server-store.ts'
import { type Actor, expectCompletedOnce, print, startActor, until } from './support.ts'

/** A process of the load program, at work as soon as it has started and the store is there. */
export async function openLoad(
  store: string | Promise<string>,
  name: string,
  options: OpenOptions = {},
): Promise<Actor> {
  const load = await startActor('load')
  await load.ask('open', { store: await store, agent: name, ...options })
  await load.ask('start', { name })
  return load
}

interface Look {
  readonly added: number
  readonly counted: number
  readonly handled: number
}

/** Each of them has got more of each thing done than before. */
export async function goesOn(loads: readonly Actor[], patience: { patience?: number } = {}): Promise<void> {
  await Promise.all(
    loads.map(async (load) => {
      const before = await load.ask<Look>('look')
      await until(
        'the load goes on',
        async () => {
          const now = await load.ask<Look>('look')
          return now.added > before.added && now.counted > before.counted && now.handled > before.handled
        },
        patience,
      )
    }),
  )
}

interface Known {
  readonly added: readonly string[]
  readonly counted: number
  /** What its counter says at the end. */
  readonly value: number
  readonly handled: readonly string[]
  readonly refused: readonly { readonly code: string; readonly message: string }[]
  /** Handlers that were told while they worked that their lease is lost. */
  readonly lost: number
}

/** The store agrees with the answers that the processes got: nothing is missing, duplicated or taken. */
export async function expectAcknowledgedOnce(
  hf: Holdfast,
  loads: readonly Actor[],
  server: Server,
): Promise<void> {
  const known = await Promise.all(loads.map((load) => load.ask<Known>('stop')))
  const rest = hf.work('q', () => {}, { concurrency: 20 })
  // Also nothing held: a worker that stops gives back what it has claimed and not begun.
  await until('nothing is left', async () => {
    const { pending, blocked, processing } = await hf.queue('q').stats()
    return pending + blocked + processing === 0
  })
  await rest.stop()
  const events = (await wholeAudit(hf, server)).filter(({ queue }) => queue === 'q')

  const acknowledged = known.flatMap(({ added }) => added)
  const counted = known.reduce((total, each) => total + each.counted, 0)
  const handled = known.flatMap((each) => each.handled)
  const created = events.filter(({ kind }) => kind === 'item.created')
  print(`${acknowledged.length} items and ${counted} counts acknowledged`)
  expect(known.map(({ refused, lost }) => ({ refused, lost }))).toEqual(
    known.map(() => ({ refused: [], lost: 0 })),
  )
  expect(created.map(({ change }) => numberOf(change?.payload)).sort()).toEqual(acknowledged.toSorted())
  expectCompletedOnce(
    events,
    created.map(({ id }) => id),
  )
  expect(events.filter(({ kind }) => kind === 'item.reclaimed')).toEqual([])
  expect(new Set(handled).size).toBe(handled.length)
  expect(known.map(({ value }) => value)).toEqual(known.map((each) => each.counted))
}

function numberOf(payload: unknown): string {
  return (JSON.parse(String(payload)) as { number: string }).number
}
