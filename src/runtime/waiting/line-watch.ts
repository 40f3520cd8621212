/**
 * One read of the line for a lock, shared by all waiters of this process. It tells whose turn has come, and the process
 * wakes its own waiters: with one read per waiter, a thousand of them would keep the lock from changing hands. Wake-ups
 * are only a hint; the next read decides. Reads are frequent near the head of a line that moves and rare in one that
 * stands still, so a hand-over takes milliseconds and a long wait costs next to nothing.
 */
import { onAbort } from '../../abort.ts'
import { renewEveryMs } from '../../domain/lease.ts'
import { type LineLook, waiterLeaseMs } from '../../domain/lock-line.ts'
import { pause } from '../../environment.ts'
import { maxRenewals } from '../../operations/lease/lease.ts'
import { type WaiterTicket, waiterRef } from '../../operations/lock/line.ts'
import { chunksOf } from '../session/pages.ts'
import type { Session } from '../session/session.ts'
import { untilDeadline } from './deadline.ts'

/** A waiter in this process, while it has nothing to ask. */
export interface LineMember {
  /** Its id in the line, and its ticket there. */
  readonly waiter: string
  readonly ticket: number
  readonly deadline: number
  /** Whether it could enter a lock that its agent holds under this token. Answers true only once per token. */
  mayEnter(holder: LineLook['holders'][number]): boolean
  /** True if no caretaker renews it. */
  readonly isUnkept: boolean
  /** Tells it to ask for the lock now, also when the read failed. */
  call(failure?: unknown): void
}

/** No bell rings for a lapse, so every line is read at least this often. */
const lookEveryMs = 500
/** Roughly how long a hand-over takes. */
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

  /** The latest read: when it was requested, and a promise that settles with its answer. */
  get look(): { readonly askedAt: number; readonly answered: Promise<unknown> } {
    return this.#latest
  }

  /** Watches for a waiter until it leaves. Reads at once: its turn may have come before it was known here. */
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
      const unheard = onAbort(ended.signal, wake)
      // Listen before looking, so that a release in between is not missed.
      const unwake = this.#session.onRing({ kind: 'lock', name: this.#name }, wake)
      try {
        const look = await this.#look()
        this.#renew(environment.monotonic())
        this.#healTheDead()
        // The line has moved: the turn may be near.
        if (look.ahead !== ahead) pauseMs = firstLookMs * (look.ahead + 1)
        ahead = look.ahead
        const jitter = 0.75 + 0.5 * environment.random()
        await pause(environment, Math.min(pauseMs * jitter, lookEveryMs), woken.signal)
        pauseMs *= 2
        // A waiter far back need not look at every release: it takes at least that many hand-overs until its turn.
        const restMs = lookedAt + firstLookMs * ahead - environment.monotonic()
        if (restMs > 0) await pause(environment, restMs, ended.signal)
      } finally {
        unwake()
        unheard()
      }
    }
  }

  /** Calls the waiters that should ask for the lock. If the read fails, all of them ask, and find out what is wrong. */
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

  /** Runs alongside the reads: a store that is slow to write must not delay noticing a turn. */
  #renew(now: number): void {
    if (now < this.#renewAt || this.#isRenewing) return
    this.#renewAt = now + renewEveryMs(waiterLeaseMs)
    const unkept = [...this.#members.values()].filter(({ isUnkept }) => isUnkept)
    if (unkept.length === 0) return
    const waiting = unkept.map(({ waiter, ticket }) => ({ id: waiterRef(this.#name, waiter), token: ticket }))
    this.#isRenewing = true
    void this.#renewAll(waiting)
      // Retried with the next read, which also finds out if a waiter was lost.
      .catch(() => {
        this.#renewAt = now
      })
      .finally(() => {
        this.#isRenewing = false
      })
  }

  /** Runs alongside as well, unless a caretaker does it. If it fails, the holder's lease decides. */
  #healTheDead(): void {
    const { recovery, settings } = this.#session
    const isUnkept = [...this.#members.values()].some((member) => member.isUnkept)
    if (isUnkept || settings.recovery.probeEveryMs === 0) void recovery.healTheDead()
  }

  async #renewAll(waiting: readonly WaiterTicket[]): Promise<void> {
    for (const some of chunksOf(waiting, maxRenewals))
      await this.#session.call('locks.renewWaiters', { waiting: some })
  }
}

/** The read failed: every waiter asks for itself. */
const unknown: LineLook = { called: [], asking: 'all', ahead: 0, holders: [] }

/** The lines in which this process waits, by name and number of slots. */
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
        // Lock names come and go: do not keep entries for old ones.
        if (watch.isEmpty && this.#watches.get(key) === watch) this.#watches.delete(key)
      },
    }
  }
}
