/** What all handles of one opened store share: who we are, the executor, and the grants we were given. */
import type { Command } from './engines/engine.ts'
import type { OpenedEngine } from './engines/open.ts'
import type { Environment } from './environment.ts'
import { isHoldfastError } from './errors.ts'
import type { Logger } from './logger.ts'
import type { LeaseRef } from './operations/lease.ts'
import { chanceFor } from './operations/table.ts'
import type { Settings } from './options.ts'
import type { Keeper, Lease } from './runtime/keeper.ts'

export interface CallOptions {
  /** Act for another agent than this handle's; its claims are manual leases. */
  readonly agent?: string | undefined
  /** False: the claim is a manual lease that nobody renews. */
  readonly renew?: boolean | undefined
  readonly idempotencyKey?: string | undefined
}

interface Grant {
  readonly agent: string
  readonly token: number
}

export class Session {
  readonly engine: OpenedEngine
  readonly environment: Environment
  readonly settings: Settings
  readonly agent: string
  readonly instance: string | null
  readonly keeper: Keeper
  readonly logger: Logger
  readonly #grants = new Map<string, Grant>()

  constructor(
    parts: Pick<Session, 'engine' | 'environment' | 'settings' | 'agent' | 'instance' | 'keeper' | 'logger'>,
  ) {
    this.engine = parts.engine
    this.environment = parts.environment
    this.settings = parts.settings
    this.agent = parts.agent
    this.instance = parts.instance
    this.keeper = parts.keeper
    this.logger = parts.logger
  }

  async call<Result>(operation: string, input: unknown, options: CallOptions = {}): Promise<Result> {
    const command: Command = {
      operation,
      input,
      namespace: this.settings.namespace,
      caller: { agent: options.agent ?? this.agent, instance: this.isBound(options) ? this.instance : null },
      chance: chanceFor(operation, input, this.environment),
      ...(options.idempotencyKey === undefined ? {} : { idempotencyKey: options.idempotencyKey }),
    }
    return (await this.engine.execute(command)) as Result
  }

  /** Whether a claim made now belongs to this process and is renewed by it. */
  isBound({ agent, renew }: CallOptions): boolean {
    return this.instance !== null && renew !== false && (agent === undefined || agent === this.agent)
  }

  /** Length of a lease when the caller says nothing: ours where we renew it, else the operation's own. */
  leaseMs(asked: number | undefined, options: CallOptions): number | undefined {
    return asked ?? (this.isBound(options) ? this.settings.leaseMs : undefined)
  }

  /** Remembers a grant, and keeps it renewed when it is bound. */
  granted(ref: LeaseRef & { leaseMs: number; requestedAt: number }, options: CallOptions): Lease | undefined {
    this.#grants.set(`${ref.kind} ${ref.id}`, { agent: options.agent ?? this.agent, token: ref.token })
    return this.isBound(options) ? this.keeper.hold(ref) : undefined
  }

  /** The token this handle was granted, unless the caller names one. */
  tokenFor(
    kind: 'item' | 'lock',
    id: string,
    options: CallOptions & { token?: number | undefined },
  ): number | undefined {
    if (options.token !== undefined) return options.token
    const grant = this.#grants.get(`${kind} ${id}`)
    return grant?.agent === (options.agent ?? this.agent) ? grant.token : undefined
  }

  /** The grant has ended, by us or without us. */
  ended(kind: 'item' | 'lock', id: string, token: number | undefined): void {
    if (token === undefined) return
    if (this.#grants.get(`${kind} ${id}`)?.token === token) this.#grants.delete(`${kind} ${id}`)
    this.keeper.drop({ kind, id, token })
  }

  /** Runs a guarded write; a grant found lost is forgotten and its work told. */
  async guarded<Result>(
    kind: 'item' | 'lock',
    id: string,
    token: number | undefined,
    write: () => Promise<Result>,
  ): Promise<Result> {
    try {
      return await write()
    } catch (error) {
      if (isHoldfastError(error) && error.code === 'LEASE_LOST' && token !== undefined) {
        this.keeper.lose({ kind, id, token }, String(error.facts.reason ?? 'it was lost'))
        this.ended(kind, id, token)
      }
      throw error
    }
  }
}
