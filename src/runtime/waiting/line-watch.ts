/**
 * One look at the line for a lock, for all waiters of this process. It tells whose turn has come, and the process wakes
 * its own: with a look for each waiter, a thousand of them would keep the lock from changing hands. Wake-ups are a hint;
 * looking again is the truth. Looks are frequent near the head of a line that moves and rare in one that stands still,
 * so that a hand-over takes milliseconds and a long wait costs next to nothing.
 */
import { renewEveryMs } from '../../domain/lease.ts'
import { type LineLook, waiterLeaseMs } from '../../domain/lock-line.ts'
import { pause } from '../../environment.ts'
import { maxRenewals } from '../../operations/lease/lease.ts'
import { type WaiterTicket, waiterRef } from '../../operations/lock/line.ts'
import type { Session } from '../session/session.ts'
import { untilDeadline } from './deadline.ts'

/** Who waits here, for as long as it has nothing to ask. */
export interface LineMember {
  /** Its place, and the ticket it stands there with. */
  readonly waiter: string
  readonly ticket: number
  readonly deadline: number
  /** Whether it could enter a lock that its agent holds under this token. Answers so once. */
  mayEnter(holder: LineLook['holders'][number]): boolean
  /** No caretaker renews its place. */
  readonly isUnkept: boolean
  /** It should ask for the lock now, also where the look failed. */
  call(failure?: unknown): void
}

/** Lapses are told by nobody, so everybody looks at least so often. */
const lookEveryMs = 500
/** About what a hand-over takes. */
const firstLookMs = 3

export class LineWatch {
  readonly #session: Session
  readonly #name: string
  readonly #slots: number
  readonly #members = new Map<string, LineMember>()
  #latest: LineWatch['look'] = { askedAt: 0, answered: Promise.resolve() }
  #wake: () => void = () => {}
  #end: () => void = () => {}
  #renewAt = 0
  #isRenewing = false

  constructor(session: Session, { name, slots }: { name: string; slots: number }) {
    this.#session = session
    this.#name = name
    this.#slots = slots
  }

  get isEmpty(): boolean {
    return this.#members.size === 0
  }

  /** The latest look: when it was asked for, and what settles with its answer. */
  get look(): { readonly askedAt: number; readonly answered: Promise<unknown> } {
    return this.#latest
  }

  /** Watches for a waiter until it leaves, beginning with a look: its turn may have come before it was known here. */
  stand(member: LineMember): () => void {
    const isFirst = this.isEmpty
    this.#members.set(member.waiter, member)
    if (isFirst) void this.#watch()
    else this.#wake()
    return () => {
      if (this.#members.get(member.waiter) === member) this.#members.delete(member.waiter)
      if (this.isEmpty) this.#end()
    }
  }

  async #watch(): Promise<void> {
    const { environment } = this.#session
    const ended = new AbortController()
    this.#end = () => ended.abort()
    this.#renewAt = environment.monotonic() + renewEveryMs(waiterLeaseMs)
    let ahead = -1
    let pauseMs = 0
    while (!ended.signal.aborted) {
      const lookedAt = environment.monotonic()
      const woken = new AbortController()
      const wake = () => woken.abort()
      this.#wake = wake
      ended.signal.addEventListener('abort', wake)
      // Listening before looking: a release in between is heard.
      const unwake = this.#session.onRing({ kind: 'lock', name: this.#name }, wake)
      try {
        const look = await this.#look()
        this.#renew(environment.monotonic())
        // The line has moved: the turn may be near.
        if (look.ahead !== ahead) pauseMs = firstLookMs * (look.ahead + 1)
        ahead = look.ahead
        const jitter = 0.75 + 0.5 * environment.random()
        await pause(environment, Math.min(pauseMs * jitter, lookEveryMs), woken.signal)
        pauseMs *= 2
        // Whoever is far behind need not look at every release: its turn takes so many hand-overs at least.
        const restMs = lookedAt + firstLookMs * ahead - environment.monotonic()
        if (restMs > 0) await pause(environment, restMs, ended.signal)
      } finally {
        unwake()
        ended.signal.removeEventListener('abort', wake)
      }
    }
  }

  /** Calls those who should ask for the lock. When nobody knows, all ask, and hear what is wrong. */
  async #look(): Promise<Pick<LineLook, 'ahead'>> {
    const members = [...this.#members.values()]
    const first = members.reduce((left, right) => (right.ticket < left.ticket ? right : left))
    const latest = Math.max(...members.map(({ deadline }) => deadline))
    const askedAt = this.#session.environment.monotonic()
    let failure: unknown
    const answered = this.#ask(first.waiter, latest).catch((error: unknown) => {
      failure = error
      return unknown
    })
    this.#latest = { askedAt, answered }
    const { called, asking, ahead, holders } = await answered
    const all = [...this.#members.values()]
    if (asking === 'all') for (const member of all) member.call(failure)
    if (asking === 'first') first.call()
    for (const waiter of called) this.#members.get(waiter)?.call()
    for (const holder of holders) for (const member of all) if (member.mayEnter(holder)) member.call()
    return { ahead }
  }

  async #ask(waiter: string, deadline: number): Promise<LineLook> {
    const input = { name: this.#name, slots: this.#slots, waiter }
    return this.#session.call('locks.lookAtLine', input, untilDeadline(this.#session, deadline))
  }

  /** Beside the looks: a store that is slow to write must not keep a turn from being seen. */
  #renew(now: number): void {
    if (now < this.#renewAt || this.#isRenewing) return
    this.#renewAt = now + renewEveryMs(waiterLeaseMs)
    const unkept = [...this.#members.values()].filter(({ isUnkept }) => isUnkept)
    if (unkept.length === 0) return
    const waiting = unkept.map(({ waiter, ticket }) => ({ id: waiterRef(this.#name, waiter), token: ticket }))
    this.#isRenewing = true
    void this.#renewAll(waiting)
      // Tried again with the next look; a place that is lost is found so there.
      .catch(() => {
        this.#renewAt = now
      })
      .finally(() => {
        this.#isRenewing = false
      })
  }

  async #renewAll(waiting: readonly WaiterTicket[]): Promise<void> {
    for (let start = 0; start < waiting.length; start += maxRenewals)
      await this.#session.call('locks.renewWaiters', { waiting: waiting.slice(start, start + maxRenewals) })
  }
}

/** Nobody can tell: each asks for itself. */
const unknown: LineLook = { called: [], asking: 'all', ahead: 0, holders: [] }

/** The lines in which this process stands, by name and number of slots. */
export class LineWatches {
  readonly #session: Session
  readonly #watches = new Map<string, LineWatch>()

  constructor(session: Session) {
    this.#session = session
  }

  stand(line: { name: string; slots: number }, member: LineMember): { leave(): void; watch: LineWatch } {
    const key = `${line.slots} ${line.name}`
    const watch = this.#watches.get(key) ?? new LineWatch(this.#session, line)
    this.#watches.set(key, watch)
    const leave = watch.stand(member)
    return {
      watch,
      leave: () => {
        leave()
        // Names of locks come and go.
        if (watch.isEmpty && this.#watches.get(key) === watch) this.#watches.delete(key)
      },
    }
  }
}
