/**
 * Looks for dead holders, so that what they held is reclaimed at once. Among processes that can judge each other, one
 * probes for all of them, in every namespace; the others only watch it. Where processes cannot agree on one (no folder
 * for its record, a clock that was moved, a private store), each probes for itself, in its own namespace.
 */
import { isUnknownBoot } from '../../domain/boot.ts'
import { jitter } from '../../domain/duty.ts'
import { decideProber, type ProberRecord, type ProbingRole } from '../../domain/prober.ts'
import type { Environment, ProberSeat } from '../../environment.ts'
import { messageOf } from '../../errors.ts'
import { deathsAmong, type Healing, heal, judgePage } from './heal.ts'
import { StoreHealer, type StoreHealing } from './store-healing.ts'

export interface ProbingOptions {
  /** 0 = never. */
  readonly probeEveryMs: number
  /** Tells the store apart from every other on this machine; null if nobody else can open it. */
  storeId(): string | null
  instance(): string
  own(): Healing
  others(): StoreHealing
  /** Whether this process holds or waits for anything. */
  isHolding(): boolean
  /** Called when this process is not listed as running: others took it for dead. */
  missing(): Promise<void>
  /** Called when `nextAt` has become earlier. */
  wake(): void
}

/**
 * How often processes that hold nothing read the record. Until then they rely on being told that the prober is gone, or
 * watch its process where that does not work.
 */
const rereadEveryMs = 2_000
/** All watchers hear at once that the prober is gone. The first to look takes over, and the others find its record. */
const spreadMs = 100
/** How long it heals in one go; the next look finds the rest. Somebody else may have died meanwhile. */
const healMs = 1_000

interface Watched {
  readonly record: ProberRecord
  readonly readAt: number
  /** Whether we are told when it is gone. */
  readonly isHeard: boolean
}

export class Probing {
  readonly #environment: Environment
  readonly #options: ProbingOptions
  readonly #id: string
  readonly #probeEveryMs: number
  readonly #storeHealer = new StoreHealer({ namespaces: undefined, processes: '' })
  #seat: { readonly store: string; readonly seat: ProberSeat } | null = null
  #isProber = false
  /** The prober that this process watches. */
  #watched: Watched | null = null
  #lookedAt: number
  #nextAt: number
  /** Where the next page starts. */
  #after: string | null = null

  constructor(environment: Environment, options: ProbingOptions) {
    this.#environment = environment
    this.#options = options
    this.#id = environment.id()
    this.#probeEveryMs = options.probeEveryMs || Number.POSITIVE_INFINITY
    this.#lookedAt = environment.monotonic()
    this.#nextAt = this.#lookedAt + this.#probeEveryMs
  }

  /** When to look next, monotonic ms. */
  get nextAt(): number {
    return this.#options.isHolding()
      ? Math.min(this.#nextAt, this.#lookedAt + this.#probeEveryMs)
      : this.#nextAt
  }

  async look(): Promise<void> {
    const seat = this.#findSeat()
    const role = seat === null ? null : this.#roleAt(seat)
    this.#isProber = role === 'prober'
    this.#rest()
    if (role === 'watcher') return
    try {
      // Begun together: on a server they share one transaction.
      if (role === 'prober') this.#storeHealer.begin(this.#options.others())
      await this.#lookHere()
    } catch (error) {
      // Another process may succeed where this one failed.
      this.#leaveSeat()
      this.#after = null
      const { log, trigger } = this.#options.own()
      log('warn', 'recovery.failed', { trigger, error: messageOf(error) })
    }
  }

  /** Gives up the seat, so that the others need not find out that this process is gone. */
  async close(): Promise<void> {
    this.#leaveSeat()
    this.#seat?.seat.close()
    await this.#storeHealer.close()
  }

  #findSeat(): ProberSeat | null {
    const { host } = this.#environment
    const store = this.#options.storeId()
    // Without a boot id this process can judge nobody, so nobody should rely on it.
    if (host.proberSeat === undefined || store === null || isUnknownBoot(host.identity.bootId)) return null
    if (this.#seat?.store !== store) {
      this.#seat?.seat.close()
      this.#seat = { store, seat: host.proberSeat(store) }
      this.#watched = null
    }
    return this.#seat.seat
  }

  /** Null if nobody can take the seat. */
  #roleAt(seat: ProberSeat): ProbingRole | null {
    const now = this.#environment.monotonic()
    if (this.#isWatched(seat, now)) return 'watcher'
    const record = seat.read()
    const role = decideProber(record, {
      self: this.#id,
      isAble: record !== null && seat.isAble(record),
      now,
      probeEveryMs: this.#probeEveryMs,
    })
    if (role === 'watcher' && record !== null) {
      this.#watched = { record, readAt: now, isHeard: seat.watch(record, () => this.#gone()) }
      return role
    }
    this.#watched = null
    if (!seat.write(this.#record())) return null
    seat.serve(this.#id, record)
    return role
  }

  /** Whether the prober's record was read recently and its process still runs, as far as we have to look ourselves. */
  #isWatched(seat: ProberSeat, now: number): boolean {
    if (this.#watched === null || this.#watched.isHeard || this.#options.isHolding()) return false
    const { record, readAt } = this.#watched
    return now - readAt < rereadEveryMs && seat.isAble(record)
  }

  #rest(): void {
    const restMs = this.#watched?.isHeard ? Math.max(this.#probeEveryMs, rereadEveryMs) : this.#probeEveryMs
    this.#lookedAt = this.#environment.monotonic()
    this.#nextAt = this.#lookedAt + restMs * jitter(this.#environment.random())
  }

  /** The prober has ended or left. Or we connected to one that had lost the seat: then the record names another. */
  #gone(): void {
    this.#watched = null
    this.#nextAt = this.#environment.monotonic() + spreadMs * this.#environment.random()
    this.#options.wake()
  }

  #record(): ProberRecord {
    const { pid, startTime } = this.#environment.host.identity
    return { id: this.#id, pid, startTime, beatAt: this.#environment.monotonic() }
  }

  #leaveSeat(): void {
    if (this.#isProber) this.#seat?.seat.leave(this.#id)
    this.#isProber = false
  }

  /** One page at a time, so that each look stays short however many there are. */
  async #lookHere(): Promise<void> {
    const healing = this.#options.own()
    const { judged, next } = await judgePage(healing, this.#after)
    const isAll = this.#after === null && next === null
    this.#after = next
    const self = this.#options.instance()
    if (isAll && !judged.some(({ instance }) => instance === self)) await this.#options.missing()
    const deaths = deathsAmong(judged)
    if (deaths.length === 0) return
    const until = this.#environment.monotonic() + healMs
    const isOver = () => healing.isOver?.() === true || this.#environment.monotonic() >= until
    await heal({ ...healing, isOver }, deaths)
  }
}
