/**
 * The caretaker keeps what this process holds and heals what others lost: renews leases, notices lost ones, looks
 * for dead holders, sweeps, cleans. It runs in a thread of its own, so that a busy main loop loses nothing;
 * with an injected environment or a private store it runs in the main thread.
 */
import { renewEveryMs, safetyMarginMs } from '../domain/lease.ts'
import type { Caller, Command, Executor } from '../engines/engine.ts'
import type { Environment } from '../environment.ts'
import { HoldfastError } from '../errors.ts'
import type { LogFacts, LogName } from '../logger.ts'
import { type LeaseRef, renewalsMax } from '../operations/lease.ts'
import type { RecoveryTrigger } from '../operations/recovery.ts'
import { chanceFor } from '../operations/table.ts'
import type { RecoveryOptions, RetentionOptions } from '../options.ts'
import { ClockWatch } from './clock-watch.ts'
import type { Deadlines } from './deadlines.ts'
import { findDeaths, type Healing, heal } from './heal.ts'
import { retain } from './retention.ts'

export interface KeptLease extends LeaseRef {
  readonly leaseMs: number
  /** Monotonic time just before the request that was granted. */
  readonly requestedAt: number
  /** Where its deadline is kept. */
  readonly slot: number
}

export interface CaretakerOptions {
  readonly namespace: string
  readonly caller: Caller
  readonly instance: string
  readonly recovery: RecoveryOptions
  readonly retention: RetentionOptions
  readonly wedgedAfterMs: number
  readonly storeIsLocal: boolean
}

/** How the caretaker tells its process what happened. */
export interface CaretakerReports {
  lost(lease: LeaseRef): void
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

export class Caretaker {
  readonly #executor: Executor & { checkpoint?(): void }
  readonly #environment: Environment
  readonly #options: CaretakerOptions
  readonly #deadlines: Deadlines
  readonly #reports: CaretakerReports
  readonly #leases = new Map<string, KeptLease & { dueAt: number }>()
  readonly #clocks: ClockWatch
  readonly #nextAt: Times
  readonly #unwake: () => void
  #sweptAt: number | null = null
  #working: Promise<void> = Promise.resolve()
  #cancelTick: () => void = () => {}
  #wedged = false
  #closed = false

  constructor(
    executor: Executor & { checkpoint?(): void },
    environment: Environment,
    deadlines: Deadlines,
    options: CaretakerOptions,
    reports: CaretakerReports,
  ) {
    this.#executor = executor
    this.#environment = environment
    this.#options = options
    this.#deadlines = deadlines
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

  hold(lease: KeptLease): void {
    this.#leases.set(keyOf(lease), {
      ...lease,
      dueAt: lease.requestedAt + this.#jittered(renewEveryMs(lease.leaseMs)),
    })
  }

  drop(lease: LeaseRef): void {
    const kept = this.#leases.get(keyOf(lease))
    if (kept?.token === lease.token) this.#leases.delete(keyOf(lease))
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#cancelTick()
    this.#unwake()
    await this.#working
  }

  #schedule(): void {
    if (this.#closed) return
    this.#cancelTick = this.#environment.timer(tickMs, () => {
      this.#working = this.tick().finally(() => this.#schedule())
    })
  }

  /** One round; every part reports its own failure and stops no other. */
  async tick(): Promise<void> {
    const now = this.#environment.monotonic()
    const jump = this.#clocks.look()
    if (jump !== null) {
      this.#reports.log('warn', 'clock.jumped', jump)
      for (const lease of this.#leases.values()) lease.dueAt = now
    }
    await this.#renew(now)
    if (this.#isDue('check', now, checkEveryMs)) await this.#check()
    const { recovery, retention } = this.#options
    if (recovery.probeEveryMs > 0 && this.#isDue('probe', now, recovery.probeEveryMs)) await this.#probe()
    if (recovery.everyMs > 0 && this.#isDue('sweep', now, recovery.everyMs)) await this.#sweep()
    if (this.#isDue('beat', now, beatEveryMs)) await this.#beat()
    if (this.#isDue('retain', now, retention.everyMs)) await this.#retain()
  }

  #isDue(what: keyof Times, now: number, everyMs: number): boolean {
    if (this.#nextAt[what] > now) return false
    this.#nextAt[what] = now + this.#jittered(everyMs)
    return true
  }

  async #renew(now: number): Promise<void> {
    if (this.#isWedged(now)) return
    const due = [...this.#leases.values()].filter((lease) => lease.dueAt <= now)
    for (let start = 0; start < due.length; start += renewalsMax)
      await this.#renewSome(due.slice(start, start + renewalsMax))
  }

  async #renewSome(leases: (KeptLease & { dueAt: number })[]): Promise<void> {
    // Counted from before the request: whatever it takes, we never believe longer than the store does.
    const requestedAt = this.#environment.monotonic()
    try {
      const refs = leases.map(({ kind, id, token }) => ({ kind, id, token }))
      const { renewed, lost } = (await this.#execute('lease.renew', { leases: refs })) as {
        renewed: LeaseRef[]
        lost: LeaseRef[]
      }
      for (const ref of renewed) {
        const kept = this.#leases.get(keyOf(ref))
        if (kept?.token !== ref.token) continue
        kept.dueAt = requestedAt + this.#jittered(renewEveryMs(kept.leaseMs))
        this.#deadlines.set(kept.slot, requestedAt + kept.leaseMs - safetyMarginMs(kept.leaseMs))
      }
      for (const ref of lost) this.#lose(ref)
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: leases.length, error: messageOf(error) })
      for (const lease of leases) lease.dueAt = this.#environment.monotonic() + lease.leaseMs / 15
    }
  }

  /** Reads only: a lease that was cancelled or taken elsewhere is noticed well before its next renewal. */
  async #check(): Promise<void> {
    const leases = [...this.#leases.values()].map(({ kind, id, token }) => ({ kind, id, token }))
    try {
      for (let start = 0; start < leases.length; start += renewalsMax) {
        const { lost } = (await this.#execute('lease.check', {
          leases: leases.slice(start, start + renewalsMax),
        })) as { lost: LeaseRef[] }
        for (const ref of lost) this.#lose(ref)
      }
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: leases.length, error: messageOf(error) })
    }
  }

  #lose(ref: LeaseRef): void {
    if (this.#leases.get(keyOf(ref))?.token !== ref.token) return
    this.#leases.delete(keyOf(ref))
    this.#reports.lost(ref)
  }

  /** A main loop that no longer turns must not keep its leases for ever: the work would never heal. */
  #isWedged(now: number): boolean {
    const silentForMs = now - this.#deadlines.beatAt
    const wedged = silentForMs > this.#options.wedgedAfterMs
    if (wedged && !this.#wedged)
      this.#reports.log('error', 'process.wedged', {
        silentForMs: Math.round(silentForMs),
        leases: this.#leases.size,
      })
    this.#wedged = wedged
    return wedged
  }

  async #probe(): Promise<void> {
    try {
      const deaths = await findDeaths(this.#healing('death'))
      if (deaths.length > 0) await heal(this.#healing('death'), deaths)
    } catch (error) {
      this.#reports.log('warn', 'recovery.failed', { trigger: 'death', error: messageOf(error) })
    }
  }

  async #sweep(): Promise<void> {
    try {
      await heal(this.#healing('timer'), [])
      this.#sweptAt = this.#environment.now()
      this.#executor.checkpoint?.()
    } catch (error) {
      this.#reports.log('warn', 'recovery.failed', { trigger: 'timer', error: messageOf(error) })
    }
  }

  #healing(trigger: RecoveryTrigger): Healing {
    return {
      environment: this.#environment,
      storeIsLocal: this.#options.storeIsLocal,
      trigger,
      execute: (operation, input) => this.#execute(operation, input),
      log: (level, name, facts) => this.#reports.log(level, name, facts),
    }
  }

  async #beat(): Promise<void> {
    await this.#execute('instance.beat', { id: this.#options.instance, sweptAt: this.#sweptAt }).catch(
      (error) => this.#reports.log('warn', 'renew.failed', { error: messageOf(error) }),
    )
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
    const { namespace, caller } = this.#options
    const chance = chanceFor(operation, input, this.#environment)
    const command: Command = { operation, input, namespace, caller, chance }
    return this.#executor.execute(command)
  }

  #jittered(ms: number): number {
    return ms * (0.9 + 0.2 * this.#environment.random())
  }
}

function keyOf({ kind, id }: LeaseRef): string {
  return `${kind} ${id}`
}

function messageOf(error: unknown): string {
  return error instanceof HoldfastError ? error.message : String(error)
}
