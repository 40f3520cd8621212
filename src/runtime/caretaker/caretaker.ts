/**
 * The caretaker keeps what this process holds and heals what others lost: it renews leases, notices lost ones, looks
 * for dead holders, sweeps, and cleans up. It runs in its own thread, so that a busy main loop loses nothing; with an
 * injected environment or a private store it runs in the main thread. It sleeps until its next duty, and is woken when
 * one comes up earlier. Above 300 lines because it keeps the times of all duties; each duty is a file of its own.
 */
import { jitter, nextDutyAt } from '../../domain/duty.ts'
import { healerAgent } from '../../domain/healer.ts'
import type { OpenedEngine } from '../../engines/open.ts'
import type { Environment } from '../../environment.ts'
import { messageOf } from '../../errors.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'
import type { RecoveryTrigger } from '../../operations/recovery/report.ts'
import {
  type Execute,
  entropyFor,
  type InputOf,
  type OperationName,
  type ResultOf,
} from '../../operations/table.ts'
import type { RecoveryOptions, RetentionOptions } from '../../options.ts'
import type { Caller, Command } from '../../port/command.ts'
import type { Executor } from '../../port/engine.ts'
import type { Board } from '../lease/board.ts'
import { ClockWatch } from './clock-watch.ts'
import type { Healing } from './heal.ts'
import { Membership } from './membership.ts'
import { Probing } from './probing.ts'
import { lookAgainMs, Renewals } from './renewals.ts'
import type { CaretakerReports } from './reports.ts'
import { retain } from './retention.ts'
import { healerOf, type StoreHealing } from './store-healing.ts'
import { Sweep } from './sweep.ts'

export interface CaretakerOptions {
  readonly namespace: string
  readonly caller: Caller
  readonly instance: string
  readonly recovery: RecoveryOptions
  readonly retention: RetentionOptions
  readonly wedgedAfterMs: number
  readonly storeIsLocal: boolean
  /** Opening the store left some lapsed leases unhealed. */
  readonly hasMoreToHeal: boolean
}

/** When each duty is next due, monotonic ms. */
interface Times {
  check: number
  sweep: number
  beat: number
  checkpoint: number
  retain: number
}

/** A cancel elsewhere rings no bell of ours; this way it is noticed well within a second. */
const checkEveryMs = 400

const beatEveryMs = 30_000

/**
 * However many leases are lost, one beat per second is enough to learn whether this instance still counts as running.
 */
const beatAgainMs = 1_000

/** The main thread asks for a checkpoint after many writes; this covers what the caretaker and a few commands write. */
const checkpointEveryMs = 5_000

/** What an engine with its own file can do in addition. */
type Caretaken = Executor & Pick<OpenedEngine, 'checkpoint' | 'isThere' | 'storeId'>

export class Caretaker {
  readonly #executor: Caretaken
  readonly #environment: Environment
  readonly #options: CaretakerOptions
  readonly #board: Board
  readonly #reports: CaretakerReports
  readonly #renewals: Renewals
  readonly #membership: Membership
  readonly #probing: Probing
  readonly #sweep: Sweep
  readonly #clocks: ClockWatch
  readonly #nextAt: Times
  #beatAt = Number.NEGATIVE_INFINITY
  /** Null while it sleeps. */
  #working: Promise<void> | null = null
  #healing: Promise<void> | null = null
  #retaining: Promise<void> | null = null
  #cancelSleep: () => void = () => {}
  /** The store's count of doubts, about the lease clock or about what it has kept, at the last look. */
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
    this.#board = board
    this.#reports = reports
    const execute: Execute = (operation, input) => this.#execute(operation, input)
    const { instance, storeIsLocal, wedgedAfterMs, recovery, retention } = options
    this.#membership = new Membership(environment, { instance, storeIsLocal, execute }, reports)
    // Taking a process for dead means taking its leases, so a lost lease is the earliest sign of that.
    const lost = (lease: LeaseRef) => {
      reports.lost(lease)
      this.#nextAt.beat = Math.min(this.#nextAt.beat, this.#beatAt + beatAgainMs)
    }
    this.#renewals = new Renewals(environment, board, { wedgedAfterMs, execute }, { ...reports, lost })
    this.#probing = new Probing(environment, {
      probeEveryMs: recovery.probeEveryMs,
      storeId: () => executor.storeId ?? null,
      instance: () => this.#membership.instance,
      own: () => this.#healingBy('death'),
      others: () => this.#healingOthersBy('death'),
      isHolding: () => board.isHolding,
      missing: () => this.#beat(),
      wake: () => this.#sleep(),
    })
    this.#sweep = new Sweep(
      {
        environment,
        reports,
        instance: () => this.#membership.instance,
        own: () => this.#healingBy('timer'),
        others: () => this.#healingOthersBy('timer'),
        missing: () => this.#beat(),
        isClosed: () => this.#closed,
      },
      options.hasMoreToHeal,
    )
    this.#clocks = new ClockWatch(environment)
    const now = environment.monotonic()
    this.#nextAt = {
      check: now + checkEveryMs,
      sweep: now + (recovery.everyMs || Number.POSITIVE_INFINITY),
      beat: now + beatEveryMs,
      checkpoint: now + (executor.checkpoint ? checkpointEveryMs : Number.POSITIVE_INFINITY),
      retain: now + retention.everyMs,
    }
    this.#sleep()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#membership.leave()
    this.#cancelSleep()
    await Promise.all([this.#working, this.#healing, this.#retaining, this.#sweep.close()])
    await this.#probing.close()
  }

  /** The main thread has added a lease that needs attention before the next duty. */
  wake(): void {
    this.#renewals.lookNow()
    this.#sleep()
  }

  /** The main thread has written a lot. */
  checkpointSoon(): void {
    this.#nextAt.checkpoint = 0
    this.#sleep()
  }

  /** Sleeps until the next duty; called again whenever a duty becomes due earlier. */
  #sleep(): void {
    if (this.#closed || this.#working !== null) return
    this.#cancelSleep()
    const now = this.#environment.monotonic()
    const until = nextDutyAt(this.#dutiesAt(), { now, isHolding: this.#board.isHolding })
    const hasSeenAll = this.#board.sleep(until, this.#renewals.seenWrites)
    const ms = hasSeenAll ? until - now : Math.min(until - now, lookAgainMs)
    // Timers count in whole milliseconds and may fire one early.
    this.#cancelSleep = this.#environment.timer(Math.ceil(ms) + 1, () => {
      this.#board.awake()
      this.#working = this.tick().then((goesOn) => {
        this.#working = null
        if (goesOn) this.#sleep()
      })
    })
  }

  #dutiesAt(): number[] {
    const { check, sweep, beat, checkpoint, retain } = this.#nextAt
    const own = [this.#renewals.nextAt, beat, this.#board.isHolding ? check : Number.POSITIVE_INFINITY]
    // A healing that is under way continues by itself and schedules the next round when it ends.
    if (this.#healing !== null) return own
    const more = this.#sweep.hasMore ? 0 : Number.POSITIVE_INFINITY
    return [...own, this.#probing.nextAt, sweep, checkpoint, retain, more]
  }

  /** One round. Each part reports its own failure and stops no other. False when there is nothing left to do, ever. */
  async tick(): Promise<boolean> {
    // The process has been told, and everything it held is lost: there is nothing left to look after.
    if (this.#executor.isThere?.() === false) return false
    const now = this.#environment.monotonic()
    const jump = this.#board.isHolding ? this.#clocks.look() : this.#clocks.glance()
    if (jump !== null) {
      this.#reports.log('warn', 'clock.jumped', jump)
      this.#renewals.doubt()
    }
    this.#watchStoreClock()
    await this.#renewals.renew(now)
    if (this.#closed) return false
    this.#healing ??= this.#heal(now).finally(() => {
      this.#healing = null
      this.#sleep()
    })
    if (this.#board.isHolding && this.#isDue('check', now, checkEveryMs)) await this.#renewals.check()
    if (!this.#closed && this.#isDue('beat', now, beatEveryMs)) await this.#beat()
    return true
  }

  /**
   * Others spare our leases only while they doubt the clock; before that ends, the leases must follow the new clock.
   */
  #watchStoreClock(): void {
    const { doubts = 0 } = this.#executor
    if (doubts !== this.#doubts) this.#renewals.doubt()
    this.#doubts = doubts
  }

  /** Runs alongside the renewals: waiting for other processes' transactions must not delay our own leases. */
  async #heal(now: number): Promise<void> {
    const { recovery, retention } = this.#options
    if (this.#isDue('checkpoint', now, checkpointEveryMs)) this.#checkpoint()
    if (this.#probing.nextAt <= now) await this.#probing.look()
    if (this.#sweep.hasMore) await this.#sweep.goOn()
    if (this.#isDue('sweep', now, recovery.everyMs)) await this.#sweep.run()
    if (this.#isDue('retain', now, retention.everyMs)) this.#retainAlongside()
  }

  #isDue(what: keyof Times, now: number, everyMs: number): boolean {
    if (this.#nextAt[what] > now) return false
    this.#nextAt[what] = now + everyMs * jitter(this.#environment.random())
    return true
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

  #healingOthersBy(trigger: RecoveryTrigger): StoreHealing {
    const healing = this.#healingBy(trigger)
    const caller = { agent: healerAgent, instance: null }
    return {
      ...healing,
      healer: healerOf(healing),
      executeIn: (namespace, operation, input) => this.#executeIn(namespace, caller, operation, input),
    }
  }

  /** A claim was refused because this instance has ended. Returns the instance this process continues as. */
  async rejoin(): Promise<string> {
    await this.#beat()
    return this.#membership.instance
  }

  #beat(): Promise<void> {
    this.#beatAt = this.#environment.monotonic()
    return this.#membership.beat(this.#sweep.sweptAt)
  }

  /** Runs alongside the looks for dead holders: there may be much to remove. */
  #retainAlongside(): void {
    this.#retaining ??= this.#retain().finally(() => {
      this.#retaining = null
    })
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

  #execute<Name extends OperationName>(operation: Name, input: InputOf<Name>): Promise<ResultOf<Name>> {
    const caller = { ...this.#options.caller, instance: this.#membership.instance }
    return this.#executeIn(this.#options.namespace, caller, operation, input)
  }

  #executeIn<Name extends OperationName>(
    namespace: string,
    caller: Caller,
    operation: Name,
    input: InputOf<Name>,
  ): Promise<ResultOf<Name>> {
    const entropy = entropyFor(operation, input, this.#environment)
    const command: Command = { operation, input, namespace, caller, entropy }
    return this.#executor.execute(command) as Promise<ResultOf<Name>>
  }
}
