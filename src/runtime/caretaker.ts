/**
 * The caretaker keeps what this process holds and heals what others lost: renews leases, notices lost ones, looks
 * for dead holders, sweeps, cleans. It runs in a thread of its own, so that a busy main loop loses nothing;
 * with an injected environment or a private store it runs in the main thread.
 */
import { healerAgent } from '../domain/healer.ts'
import type { Instance } from '../domain/instance.ts'
import { renewEveryMs, safetyMarginMs } from '../domain/lease.ts'
import type { Caller, Command, Executor } from '../engines/engine.ts'
import type { OpenedEngine } from '../engines/open.ts'
import type { Environment } from '../environment.ts'
import { HoldfastError } from '../errors.ts'
import type { LogFacts, LogName } from '../logger.ts'
import { type LeaseRef, renewalsMax } from '../operations/lease.ts'
import { type NearLease, nearMax, warningsMax } from '../operations/lease-warning.ts'
import type { RecoveryTrigger } from '../operations/recovery.ts'
import { chanceFor } from '../operations/table.ts'
import type { RecoveryOptions, RetentionOptions } from '../options.ts'
import type { Board, BoardEntry, BoardLease, BoardPlace } from './board.ts'
import { ClockWatch } from './clock-watch.ts'
import { deathsAmong, endedHolders, endSilent, type Healing, heal, judgePage } from './heal.ts'
import { retain } from './retention.ts'
import { healerOf, isUpTo, StoreHealer } from './store-healing.ts'

export interface CaretakerOptions {
  readonly namespace: string
  readonly caller: Caller
  readonly instance: string
  readonly recovery: RecoveryOptions
  readonly retention: RetentionOptions
  readonly wedgedAfterMs: number
  readonly storeIsLocal: boolean
  /** Opening the store left some of what has lapsed. */
  readonly hasMoreToHeal: boolean
}

/** How the caretaker tells its process what happened. */
export interface CaretakerReports {
  lost(lease: LeaseRef): void
  /** This process goes on as a new instance: the old one was taken for dead. */
  rejoined(instance: string): void
  log(level: 'info' | 'warn' | 'error', name: LogName, facts: LogFacts): void
}

/** When each duty is next due, monotonic ms. */
interface Times {
  check: number
  probe: number
  sweep: number
  beat: number
  retain: number
}

const checkEveryMs = 400
const beatEveryMs = 30_000
const tickMs = 100
const goOnMs = 200
/** Whoever is silent for longer may not come when its turn does: its places in lines are left to lapse. */
const placesAliveMs = 2_000
/** A peer that judges us wrongly once may do so again: joining anew must not fill the store. */
const rejoinEveryMs = 10_000

/** What an engine with a file of its own can do besides. */
type Caretaken = Executor & Pick<OpenedEngine, 'checkpoint' | 'isThere'>

export class Caretaker {
  readonly #executor: Caretaken
  readonly #environment: Environment
  readonly #options: CaretakerOptions
  readonly #board: Board
  readonly #reports: CaretakerReports
  /** When each lease on the board is next renewed, by its slot there: two leases may have the same token. */
  readonly #due = new Map<number, { readonly lease: BoardEntry; readonly at: number }>()
  readonly #clocks: ClockWatch
  readonly #nextAt: Times
  readonly #unwake: () => void
  #instance: string
  /** When the next lease on the board is due. */
  #renewAt = Number.POSITIVE_INFINITY
  #rejoinedAt = Number.NEGATIVE_INFINITY
  #rejoining: Promise<void> | null = null
  /** Where the next look for dead processes goes on. */
  #probeAfter: string | null = null
  #sweptAt: number | null = null
  #hasMoreToHeal: boolean
  #working: Promise<void> = Promise.resolve()
  #healing: Promise<void> | null = null
  readonly #storeHealer = new StoreHealer()
  #visiting: Promise<void> | null = null
  #cancelTick: () => void = () => {}
  #wedged = false
  /** The clocks disagreed: every lease is renewed at once. */
  #doubtful = false
  /** How often the store was in doubt when it was last looked at. */
  #doubts = 0
  #closed = false

  constructor(
    executor: Caretaken,
    environment: Environment,
    board: Board,
    options: CaretakerOptions,
    reports: CaretakerReports,
  ) {
    this.#executor = executor
    this.#environment = environment
    this.#options = options
    this.#instance = options.instance
    this.#hasMoreToHeal = options.hasMoreToHeal
    this.#board = board
    this.#reports = reports
    this.#clocks = new ClockWatch(environment)
    const now = environment.monotonic()
    this.#nextAt = {
      check: now + checkEveryMs,
      probe: now + options.recovery.probeEveryMs,
      sweep: now + options.recovery.everyMs,
      beat: now + beatEveryMs,
      retain: now + options.retention.everyMs,
    }
    // A cancel elsewhere rings too: look at our own leases at once.
    this.#unwake = executor.onWake(() => {
      this.#nextAt.check = 0
    })
    this.#schedule()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#cancelTick()
    this.#unwake()
    await Promise.all([this.#working, this.#healing, this.#visiting])
  }

  /** Sooner where a lease is to be renewed before: a short one has no time to lose. */
  #schedule(): void {
    if (this.#closed) return
    const untilRenewalMs = this.#renewAt - this.#environment.monotonic()
    this.#cancelTick = this.#environment.timer(Math.max(1, Math.min(tickMs, untilRenewalMs)), () => {
      this.#working = this.tick().finally(() => this.#schedule())
    })
  }

  /** One round; every part reports its own failure and stops no other. */
  async tick(): Promise<void> {
    // Its process was told, and everything it held is lost: there is nothing more to take care of.
    if (this.#executor.isThere?.() === false) return
    const now = this.#environment.monotonic()
    const jump = this.#clocks.look()
    if (jump !== null) {
      this.#reports.log('warn', 'clock.jumped', jump)
      this.#due.clear()
      this.#doubtful = true
    }
    this.#watchStoreClock()
    await this.#renew(now)
    if (this.#closed) return
    this.#healing ??= this.#heal(now).finally(() => {
      this.#healing = null
    })
    if (this.#isDue('check', now, checkEveryMs)) await this.#check()
    if (!this.#closed && this.#isDue('beat', now, beatEveryMs)) await this.#beat()
  }

  /** Others spare what we hold only while they doubt the clock; by then it has to run by the clock as it is now. */
  #watchStoreClock(): void {
    const { doubts = 0 } = this.#executor
    if (doubts !== this.#doubts) this.#doubtful = true
    this.#doubts = doubts
  }

  /** Beside the renewals: what waits for others' transactions must not keep our own leases waiting. */
  async #heal(now: number): Promise<void> {
    this.#checkpoint()
    const { recovery, retention } = this.#options
    if (recovery.probeEveryMs > 0 && this.#isDue('probe', now, recovery.probeEveryMs)) await this.#probe()
    if (this.#hasMoreToHeal) await this.#goOnHealing()
    if (recovery.everyMs > 0 && this.#isDue('sweep', now, recovery.everyMs)) await this.#sweep()
    if (this.#isDue('retain', now, retention.everyMs)) await this.#retain()
  }

  #isDue(what: keyof Times, now: number, everyMs: number): boolean {
    if (this.#nextAt[what] > now) return false
    this.#nextAt[what] = now + this.#jittered(everyMs)
    return true
  }

  async #renew(now: number): Promise<void> {
    this.#renewAt = Number.POSITIVE_INFINITY
    if (this.#isWedged(now)) return
    const leases = [...this.#board.leases()]
    // One jitter for all that were granted since the last round: what was claimed together is renewed together.
    const jitter = this.#jittered(1)
    const due = leases.filter((lease) => this.#isRenewalDue(lease, now, jitter))
    const places = now - this.#board.beatAt > placesAliveMs ? [] : [...this.#board.places()]
    const duePlaces = places.filter((place) => this.#isRenewalDue(place, now, jitter))
    this.#doubtful = false
    for (let start = 0; start < due.length; start += renewalsMax)
      await this.#renewSome(due.slice(start, start + renewalsMax))
    for (let start = 0; start < duePlaces.length; start += renewalsMax)
      await this.#renewPlaces(duePlaces.slice(start, start + renewalsMax))
    const kept = [...leases, ...places]
    this.#renewAt = Math.min(...kept.map(({ slot }) => this.#due.get(slot)?.at ?? now + tickMs))
  }

  #isRenewalDue(lease: BoardEntry, now: number, jitter: number): boolean {
    const known = this.#due.get(lease.slot)
    if (known && isSameLease(known.lease, lease)) return this.#doubtful || known.at <= now
    const at = lease.requestedAt + jitter * renewEveryMs(lease.leaseMs)
    this.#due.set(lease.slot, { lease, at })
    return this.#doubtful || at <= now
  }

  async #renewSome(leases: readonly BoardLease[]): Promise<void> {
    // Counted from before the request: whatever it takes, we never believe longer than the store does.
    const requestedAt = this.#environment.monotonic()
    try {
      const { lost } = (await this.#execute('lease.renew', { leases: leases.map(renewalOf) })) as {
        lost: LeaseRef[]
      }
      const jitter = this.#jittered(1)
      for (const lease of leases) {
        if (lost.some((ref) => isSameGrant(ref, lease))) {
          // Its process is told, and strikes it out when it comes to that.
          this.#due.set(lease.slot, { lease, at: requestedAt + tickMs })
          continue
        }
        this.#due.set(lease.slot, {
          lease,
          at: requestedAt + jitter * renewEveryMs(lease.leaseMs),
        })
        this.#board.extend(lease, requestedAt + lease.leaseMs - safetyMarginMs(lease.leaseMs))
      }
      for (const ref of lost) this.#reports.lost(ref)
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: leases.length, error: messageOf(error) })
      const now = this.#environment.monotonic()
      for (const lease of leases) this.#due.set(lease.slot, { lease, at: now + lease.leaseMs / 15 })
    }
  }

  /** A place that is gone is found so by its waiter, which stands in line anew. */
  async #renewPlaces(places: readonly BoardPlace[]): Promise<void> {
    const requestedAt = this.#environment.monotonic()
    const next = (place: BoardPlace, inMs: number) =>
      this.#due.set(place.slot, { lease: place, at: requestedAt + inMs })
    try {
      await this.#execute('locks.renewPlaces', { places: places.map(({ id, token }) => ({ id, token })) })
      const jitter = this.#jittered(1)
      for (const place of places) next(place, jitter * renewEveryMs(place.leaseMs))
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: places.length, error: messageOf(error) })
      for (const place of places) next(place, place.leaseMs / 15)
    }
  }

  /** Reads only: a lease that was cancelled or taken elsewhere is noticed well before its next renewal. */
  async #check(): Promise<void> {
    const leases = [...this.#board.leases()].map(refOf)
    try {
      for (let start = 0; start < leases.length; start += renewalsMax) {
        const input = { leases: leases.slice(start, start + renewalsMax) }
        const { lost } = (await this.#execute('lease.check', input)) as { lost: LeaseRef[] }
        for (const ref of lost) this.#reports.lost(ref)
      }
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: leases.length, error: messageOf(error) })
    }
  }

  /** A main loop that no longer turns must not keep its leases for ever: the work would never heal. */
  #isWedged(now: number): boolean {
    const silentForMs = now - this.#board.beatAt
    const wedged = silentForMs > this.#options.wedgedAfterMs
    if (wedged && !this.#wedged)
      this.#reports.log('error', 'process.wedged', {
        silentForMs: Math.round(silentForMs),
        leases: [...this.#board.leases()].length,
      })
    this.#wedged = wedged
    return wedged
  }

  async #probe(): Promise<void> {
    try {
      // A page each time: however many there are, a look stays short.
      const { judged, next } = await judgePage(this.#healingBy('death'), this.#probeAfter)
      const isAll = this.#probeAfter === null && next === null
      this.#probeAfter = next
      if (isAll && !judged.some(({ instance }) => instance === this.#instance)) await this.#beat()
      const deaths = deathsAmong(judged)
      if (deaths.length > 0) await heal(this.#healingBy('death'), deaths)
    } catch (error) {
      this.#probeAfter = null
      this.#reports.log('warn', 'recovery.failed', { trigger: 'death', error: messageOf(error) })
    }
  }

  /** What opening the store had no time for; a little at a time, so that deaths are noticed meanwhile. */
  async #goOnHealing(): Promise<void> {
    const until = this.#environment.monotonic() + goOnMs
    try {
      const isOver = () => this.#closed || this.#environment.monotonic() >= until
      const { more } = await heal({ ...this.#healingBy('timer'), isOver }, [])
      this.#hasMoreToHeal = more
    } catch (error) {
      this.#hasMoreToHeal = false
      this.#reports.log('warn', 'recovery.failed', { trigger: 'timer', error: messageOf(error) })
    }
  }

  async #sweep(): Promise<void> {
    try {
      const healing = this.#healingBy('timer')
      const { bootId, hostName, pidNamespace } = this.#environment.host.identity
      const { isDue, healers } = (await this.#execute('recovery.look', {
        machine: { bootId, hostName, pidNamespace },
      })) as { isDue: boolean; healers: Instance[] }
      const deaths = deathsAmong(await endedHolders(healing))
      // Mostly there is nothing: then nobody has to wait for a write that changes nothing.
      if (isDue || deaths.length > 0) await heal(healing, deaths)
      else await endSilent(healing)
      await this.#warnNear()
      this.#sweptAt = this.#environment.now()
      if (isUpTo(this.#instance, healers, healing)) this.#visitOthers(healing)
    } catch (error) {
      this.#reports.log('warn', 'recovery.failed', { trigger: 'timer', error: messageOf(error) })
    }
  }

  /** Beside the sweeps: however much there is to do elsewhere, our own namespace does not wait for it. */
  #visitOthers(healing: Healing): void {
    const caller = { agent: healerAgent, instance: null }
    this.#visiting ??= this.#storeHealer
      .visit({
        ...healing,
        healer: healerOf(healing),
        executeIn: (namespace, operation, input) => this.#executeIn(namespace, caller, operation, input),
      })
      .catch((error: unknown) =>
        this.#reports.log('warn', 'recovery.failed', { trigger: 'timer', error: messageOf(error) }),
      )
      .finally(() => {
        this.#visiting = null
      })
  }

  /** Each piece is a transaction of its own; where there is nothing to tell there is none. */
  async #warnNear(): Promise<void> {
    for (let told = 1, more = true; more && told > 0 && !this.#closed; ) {
      const near = (await this.#execute('lease.listNear', {})) as NearLease[]
      more = near.length >= nearMax
      told = 0
      for (let start = 0; start < near.length; start += warningsMax) {
        const leases = near.slice(start, start + warningsMax)
        told += (await this.#execute('lease.warnNear', { leases })) as number
      }
    }
  }

  #checkpoint(): void {
    try {
      this.#executor.checkpoint?.()
    } catch (error) {
      this.#reports.log('warn', 'retention.failed', { error: messageOf(error) })
    }
  }

  #healingBy(trigger: RecoveryTrigger): Healing {
    return {
      environment: this.#environment,
      storeIsLocal: this.#options.storeIsLocal,
      trigger,
      isOver: () => this.#closed,
      execute: (operation, input) => this.#execute(operation, input),
      log: (level, name, facts) => this.#reports.log(level, name, facts),
    }
  }

  /** A claim was refused because this instance has ended. Answers what this process goes on as. */
  async rejoin(): Promise<string> {
    await this.#beat()
    return this.#instance
  }

  async #beat(): Promise<void> {
    const { host } = this.#environment
    try {
      // What is old is swept.
      if (!this.#options.storeIsLocal) host.ownMark.refresh(host.identity)
      const id = this.#instance
      const isRunning = await this.#execute('instance.beat', { id, sweptAt: this.#sweptAt })
      // Several may have asked at once: they join again as one.
      if (isRunning !== false || id !== this.#instance) return
      this.#rejoining ??= this.#rejoin()
      await this.#rejoining
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: 0, error: messageOf(error) })
    }
  }

  /**
   * Somebody took this process for dead. What it held then is lost; what it claims from now on must belong to an
   * instance whose death can still be noticed.
   */
  async #rejoin(): Promise<void> {
    const now = this.#environment.monotonic()
    try {
      if (this.#closed || now - this.#rejoinedAt < rejoinEveryMs) return
      this.#rejoinedAt = now
      const id = this.#environment.id()
      await this.#execute('instance.start', { id, ...this.#environment.host.identity })
      this.#reports.log('warn', 'process.rejoined', { former: this.#instance, instance: id })
      this.#instance = id
      this.#reports.rejoined(id)
    } finally {
      this.#rejoining = null
    }
  }

  async #retain(): Promise<void> {
    try {
      await retain(
        (operation, input) => this.#execute(operation, input),
        this.#options.retention,
        () => this.#closed,
      )
    } catch (error) {
      this.#reports.log('warn', 'retention.failed', { error: messageOf(error) })
    }
  }

  #execute(operation: string, input: unknown): Promise<unknown> {
    const caller = { ...this.#options.caller, instance: this.#instance }
    return this.#executeIn(this.#options.namespace, caller, operation, input)
  }

  #executeIn(namespace: string, caller: Caller, operation: string, input: unknown): Promise<unknown> {
    const chance = chanceFor(operation, input, this.#environment)
    const command: Command = { operation, input, namespace, caller, chance }
    return this.#executor.execute(command)
  }

  #jittered(ms: number): number {
    return ms * (0.9 + 0.2 * this.#environment.random())
  }
}

function isSameLease(left: BoardEntry, right: BoardEntry): boolean {
  return isSameGrant(left, right) && left.requestedAt === right.requestedAt
}

type Granted = Pick<BoardEntry, 'kind' | 'id' | 'token'>

function isSameGrant(left: Granted, right: Granted): boolean {
  return left.token === right.token && left.kind === right.kind && left.id === right.id
}

function refOf({ kind, id, token }: BoardLease): LeaseRef {
  return { kind, id, token }
}

function renewalOf(lease: BoardLease): LeaseRef & { readonly leaseMs: number } {
  return { ...refOf(lease), leaseMs: lease.leaseMs }
}

function messageOf(error: unknown): string {
  return error instanceof HoldfastError ? error.message : String(error)
}
