/**
 * Processes at work on a cluster: some add, count, handle and complete, one reads every event, one only listens. They
 * write down what was acknowledged; at the end the store must say the same.
 */
import type { Event, Holdfast } from 'holdfast'
import { expect } from 'vitest'
import { goesOn } from '../crash/load.ts'
import { wholeAudit } from '../crash/server-store.ts'
import { type Actor, expectCompletedOnce, openHere, print, startActor, until } from '../crash/support.ts'
import type { Cluster } from './cluster.ts'

interface Known {
  readonly added: readonly string[]
  /** Adds in doubt: their callers do not know whether they happened. */
  readonly doubtful: readonly string[]
  readonly counted: number
  readonly value: number
  readonly handled: readonly string[]
  /** Ids of items whose completion was acknowledged call by call. */
  readonly finished: readonly string[]
  readonly refused: readonly { readonly code: string; readonly message: string }[]
  readonly lost: number
}

/** While a branch is refused; and afterwards, for what was claimed or added on the one that is lost. */
const ofLoss = ['STORE_UNAVAILABLE', 'LEASE_LOST', 'NOT_FOUND']

export class Fleet {
  readonly #cluster: Cluster
  readonly #listener: Holdfast
  readonly #loads: readonly Actor[]
  readonly #reader: Actor

  private constructor(cluster: Cluster, listener: Holdfast, loads: readonly Actor[], reader: Actor) {
    this.#cluster = cluster
    this.#listener = listener
    this.#loads = loads
    this.#reader = reader
  }

  static async start(cluster: Cluster): Promise<Fleet> {
    const { store, stores } = cluster
    const listener = await openHere(store, { agent: 'listener' })
    const reader = await startActor('load')
    await reader.ask('open', { store, agent: 'reader' })
    await reader.ask('follow')
    const names = ['left', 'middle', 'right']
    const loads = await Promise.all(
      names.map(async (name, region) => {
        const load = await startActor('load')
        await load.ask('open', { store: stores[region], agent: name })
        await load.ask('start', { name, finishes: true })
        return load
      }),
    )
    const fleet = new Fleet(cluster, listener, loads, reader)
    await fleet.goesOn()
    return fleet
  }

  /** Each process gets on with everything it does, for a while. */
  async goesOn(): Promise<void> {
    for (let times = 0; times < 10; times++) await goesOn(this.#loads)
  }

  /** How much was acknowledged so far, of everything. */
  async acknowledged(): Promise<number> {
    const looks = await Promise.all(
      this.#loads.map((load) => load.ask<{ added: number; counted: number }>('look')),
    )
    return looks.reduce((total, { added, counted }) => total + added + counted, 0)
  }

  /** Every process, even one that only listens, works on the primary within this time from now. */
  async findsPrimary(withinMs: number): Promise<void> {
    const startedAt = performance.now()
    const timeline = await this.#cluster.primary.server.timeline()
    const patience = { patience: withinMs }
    const isThere = async (actor: Actor) => {
      const { server } = await actor.ask<Holdfast['status']>('status')
      return server?.timeline === timeline
    }
    await Promise.all([
      goesOn(this.#loads, patience),
      until('who listens has found it', () => this.#listener.status.server?.timeline === timeline, patience),
      until('who reads has found it', () => isThere(this.#reader), patience),
    ])
    const tookMs = performance.now() - startedAt
    print(`every process had found the primary after ${Math.round(tookMs)} ms`)
    expect(tookMs).toBeLessThan(withinMs)
  }

  /** Numbers of the items whose adding was acknowledged so far. */
  async added(): Promise<string[]> {
    return (await Promise.all(this.#loads.map((load) => load.ask<string[]>('added')))).flat()
  }

  /** Every process that works has logged this as an error. */
  async expectError(name: string): Promise<void> {
    const errors = await Promise.all(this.#loads.map((load) => load.ask<string[]>('errors')))
    expect(errors.map((each) => each.includes(name))).toEqual(errors.map(() => true))
  }

  /**
   * After a branch was thrown away: of what was acknowledged only that is missing which was added on the branch, what is
   * left is done once, and the reader has skipped nothing that is there. Answers the events of the store.
   */
  async expectOnlyLost(branch: {
    readonly before: readonly string[]
    readonly last: readonly string[]
  }): Promise<Event[]> {
    const known = await this.#stop()
    const { events, followed } = await this.#readAll()

    const created = new Set(createdIn(events))
    const onBranch = new Set(branch.last)
    for (const number of branch.before) onBranch.delete(number)
    const missing = known.flatMap(({ added }) => added).filter((number) => !created.has(number))
    expect(missing.filter((number) => !onBranch.has(number))).toEqual([])
    expect(missing.length).toBeGreaterThan(0)
    const seen = new Set(followed)
    // Of what others wrote on the branch before the reader's process followed it, numbers may be ones it has passed.
    expect(events.filter(({ seq, agent }) => !seen.has(seq) && agent !== 'late')).toEqual([])
    expect(followed).toEqual(followed.toSorted((left, right) => left - right))
    const ofQueue = events.filter(({ queue }) => queue === 'q')
    expectCompletedOnce(ofQueue, idsIn(ofQueue))
    const codes = known.flatMap(({ refused }) => refused.map(({ code }) => code))
    expect(codes.filter((code) => !ofLoss.includes(code))).toEqual([])
    print(`${missing.length} acknowledged items lost with the branch, ${codes.length} calls refused`)
    return events
  }

  #stop(): Promise<Known[]> {
    return Promise.all(this.#loads.map((load) => load.ask<Known>('stop', {}, { patience: 60_000 })))
  }

  /** Everything there is in the end, and what the reader has seen of it. */
  async #readAll(): Promise<{ events: Event[]; followed: number[] }> {
    await this.#drain()
    const events = await wholeAudit(this.#listener, this.#cluster.primary.server)
    const last = events.at(-1)?.seq ?? 0
    const followed = await this.#reader.ask<number[]>('stopFollowing', { last })
    return { events, followed }
  }

  /** The store agrees with the answers that the processes got: nothing is missing, duplicated or skipped. */
  async expectWhole(): Promise<void> {
    const known = await this.#stop()
    const { events, followed } = await this.#readAll()

    const ofQueue = events.filter(({ queue }) => queue === 'q')
    expectAllAdded(known, ofQueue)
    expectAllFinished(known, ofQueue)
    expect(known.map(({ value }) => value)).toEqual(known.map(({ counted }) => counted))
    expect(followed).toEqual(events.map(({ seq }) => seq))
    expect(known.flatMap(({ refused }) => refused)).toEqual([])
    expect(known.map(({ lost }) => lost)).toEqual(known.map(() => 0))
    print(
      `${known.flatMap(({ added }) => added).length} items, ${events.length} events, ${sum(known)} counts`,
    )
  }

  /**
   * Also nothing held: a worker that stops gives back what it has claimed and not begun. What was finished on a branch
   * that is lost is held until its lease lapses: nobody knows that it is not done.
   */
  async #drain(): Promise<void> {
    const rest = this.#listener.work('q', () => {}, { concurrency: 20 })
    await until(
      'nothing is left',
      async () => {
        const { pending, blocked, processing } = await this.#listener.queue('q').stats()
        return pending + blocked + processing === 0
      },
      { patience: 120_000 },
    )
    await rest.stop()
  }
}

function sum(known: readonly Known[]): number {
  return known.reduce((total, { counted }) => total + counted, 0)
}

function createdIn(events: readonly Event[]): string[] {
  return events
    .filter(({ kind, queue }) => kind === 'item.created' && queue === 'q')
    .map(({ change }) => numberOf(change?.payload))
}

function idsIn(events: readonly Event[]): string[] {
  return events.filter(({ kind }) => kind === 'item.created').map(({ id }) => id)
}

function expectAllAdded(known: readonly Known[], events: readonly Event[]): void {
  const doubtful = new Set(known.flatMap((each) => each.doubtful))
  const created = createdIn(events).filter((number) => !doubtful.has(number))
  expect(created.sort()).toEqual(known.flatMap(({ added }) => added).sort())
}

function expectAllFinished(known: readonly Known[], events: readonly Event[]): void {
  const created = idsIn(events)
  expectCompletedOnce(events, created)
  const isCreated = new Set(created)
  expect(known.flatMap(({ finished }) => finished).filter((id) => !isCreated.has(id))).toEqual([])
  expect(events.filter(({ kind }) => kind === 'item.reclaimed')).toEqual([])
  const handled = known.flatMap((each) => each.handled)
  expect(handled.length).toBe(new Set(handled).size)
}

function numberOf(payload: unknown): string {
  return (JSON.parse(String(payload)) as { number: string }).number
}
