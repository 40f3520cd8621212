/** `hf.state(key)`: the operations on one versioned document as methods. */

import type { StandardSchemaV1 } from '@standard-schema/spec'
import * as z from 'zod'
import { isVersionMismatchError, VersionMismatchError } from '../errors.ts'
import { parseInput } from '../operations/operation.ts'
import type { SavedView, StateHistory, StatePage, StateView } from '../operations/state/state.ts'
import type { AskedOf } from '../operations/table.ts'
import { optionsOf } from '../runtime/session/input.ts'
import { callable, signal } from '../runtime/session/option-fields.ts'
import type { Session } from '../runtime/session/session.ts'
import { UpdateOrder } from '../runtime/waiting/update-order.ts'
import { wakeOn } from '../runtime/waiting/wake-up.ts'
import type { OptionsFor } from './call-options.ts'
import { documentAt, parsed, type Storable, storable } from './payload.ts'

/** A document as it was read. */
export interface StateEntry<Value> extends Omit<StateView, 'value'> {
  /** What the schema makes of the stored value. */
  readonly value: Value
}

/** How values of a document are checked. */
export interface StateOptions<Input = unknown, Output = Input> {
  /**
   * Any Standard Schema (zod, valibot, arktype, …). What is saved is the value as JSON has it, once the schema accepts
   * it in that form; what the schema makes of it is given on every read.
   */
  readonly schema?: StandardSchemaV1<Input, Output> | undefined
}

/** Conditions of a change, and who makes it. */
export interface StateSetOptions extends OptionsFor<'state.set', 'key' | 'value'> {}

/** How often an update is attempted, who makes it, and what stops it. */
export interface StateUpdateOptions {
  /** Attempts in all, the first included: once this many have failed, VERSION_MISMATCH; default 5. An attempt reads, changes and saves. */
  readonly maxAttempts?: number | undefined
  /** Once it has fired, nothing is saved. */
  readonly signal?: AbortSignal | undefined
  /** Who acts; default is this handle's own agent. */
  readonly agent?: string | undefined
}

/** Where a watch starts, and what ends it. */
export interface StateWatchOptions {
  /** The version you know (0 = none). The watch begins with the first one that differs. */
  readonly since?: number | undefined
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined
}

/** The outcome of an update. `version` and `value` are those the document has now. */
export type StateUpdate<Value> =
  | { readonly outcome: 'saved'; readonly value: Value; readonly version: number; readonly attempts: number }
  | {
      readonly outcome: 'unchanged'
      readonly value: Value | null
      readonly version: number
      readonly attempts: number
    }

const stateOptions = {
  name: 'state',
  input: z.strictObject({
    schema: z.custom<object>((value) => typeof value === 'object' || typeof value === 'function').optional(),
  }),
}
const updateOptions = {
  name: 'state.update',
  input: z.strictObject({
    change: callable,
    maxAttempts: z.int().min(1).max(10_000).optional(),
    signal,
    agent: z.string().optional(),
  }),
}
const watchOptions = {
  name: 'state.watch',
  input: z.strictObject({ since: z.int().min(0).optional(), signal }),
}

/** Counted as in the source documents: every round of reading, changing and saving, including the first. */
const defaultMaxAttempts = 5
/** How often a watcher polls when it cannot rely on notifications. */
const watchPollMs = 500
/** How often it polls while notifications are known to arrive. */
const watchHeardMs = 5000

/**
 * One versioned document. It is saved as an `Input`, and every read gives the `Output` that the schema makes of it;
 * without a schema both are the same.
 */
export class State<Input = unknown, Output = Input> {
  /** The key of the document. */
  readonly key: string
  readonly #session: Session
  readonly #schema: StandardSchemaV1<Input, Output> | undefined

  constructor(session: Session, key: string, options: StateOptions<Input, Output> = {}) {
    parseInput(stateOptions, optionsOf('state', options))
    this.key = key
    this.#session = session
    this.#schema = options.schema
  }

  /** The document with its version; null when there is none. INVALID when it does not fit the schema. */
  async get(): Promise<StateEntry<Output> | null> {
    const entry = await this.#session.call('state.get', { key: this.key })
    return entry && { ...entry, value: await this.#parsed(entry.value) }
  }

  /** Saves a value and raises the version by one. Without `expectedVersion`, it overwrites whatever is there. */
  async set(value: Input, options: StateSetOptions = {}): Promise<SavedView> {
    const { input } = await storable(this.#schema, value, documentAt(this.key))
    return this.#save('state.set', options, { key: this.key, value: input })
  }

  async #save(
    operation: 'state.set' | 'state.save',
    options: StateSetOptions,
    input: { readonly key: string; readonly value: unknown; readonly update?: string },
  ): Promise<SavedView> {
    const saved = await this.#session.ask(operation, input, options)
    this.#session.logger.debug?.({ key: this.key, version: saved.version }, 'state.saved')
    return saved
  }

  /**
   * Reads the document, calls `change` for the new value, and saves it if nobody else saved in the meantime. Otherwise
   * it starts over, up to `maxAttempts` times in all; then VERSION_MISMATCH. `change` may run several times and must
   * have no side effects: perform those afterwards, based on `outcome` and `version`. If it returns undefined, the
   * document stays as it is.
   */
  async update(
    change: (value: Output | null, version: number) => Input | undefined | Promise<Input | undefined>,
    options: StateUpdateOptions = {},
  ): Promise<StateUpdate<Output>> {
    const asked = optionsOf('state.update', options)
    parseInput(updateOptions, { ...asked, change })
    const { maxAttempts = defaultMaxAttempts, signal, ...by } = asked
    const order = new UpdateOrder(this.#session, this.key, signal)
    try {
      for (let attempts = 1; ; attempts++) {
        const found = await order.read()
        const entry = found && { ...found, value: await this.#parsed(found.value) }
        const version = entry?.version ?? 0
        const changed = await change(entry?.value ?? null, version)
        if (changed === undefined)
          return { outcome: 'unchanged', value: entry?.value ?? null, version, attempts }
        const { input, output } = await storable(this.#schema, changed, documentAt(this.key))
        signal?.throwIfAborted()
        try {
          const expected = { ...by, expectedVersion: version }
          const saving = { key: this.key, value: input, update: order.id }
          const saved = await this.#save('state.save', expected, saving)
          order.saved()
          return { outcome: 'saved', value: output, version: saved.version, attempts }
        } catch (error) {
          if (!isVersionMismatchError(error)) throw error
          this.#conflicted(error, { attempt: attempts, maxAttempts })
          await order.lost()
        }
      }
    } finally {
      await order.giveWay()
    }
  }

  /** Logs the conflict, and throws after the last attempt. */
  #conflicted(
    error: VersionMismatchError,
    { attempt, maxAttempts }: { attempt: number; maxAttempts: number },
  ): void {
    const { logger } = this.#session
    logger.info?.({ key: this.key, attempt }, 'state.conflict')
    if (attempt < maxAttempts) return
    logger.warn({ key: this.key, attempts: attempt }, 'state.gave_up')
    const { expected, current } = error.facts
    throw new VersionMismatchError(
      { subject: `state ${this.key}`, expected, current, attempts: attempt },
      `others saved it during each of ${attempt} attempts, and this update was not saved: try again later, allow more attempts, or take a lock around it`,
    )
  }

  /**
   * Deletes the document. Its history stays, and version numbers continue where they were. False when there is none.
   */
  delete(options: StateSetOptions = {}): Promise<boolean> {
    return this.#session.ask('state.delete', { key: this.key }, options)
  }

  /** Former values, newest first, as far back as events are kept. They are not checked by the schema. */
  history(options: Omit<AskedOf<'state.history'>, 'key'> = {}): Promise<StateHistory> {
    return this.#session.ask('state.history', { key: this.key }, options)
  }

  /**
   * Yields the current document (null when there is none), then the document after each change. You always get the
   * latest value; values that were quickly replaced may be skipped (`history` has them all). Versions only grow.
   */
  watch(options: StateWatchOptions = {}): AsyncGenerator<StateEntry<Output> | null, void, undefined> {
    parseInput(watchOptions, options)
    return this.#watch(options)
  }

  async *#watch({
    since,
    signal,
  }: StateWatchOptions): AsyncGenerator<StateEntry<Output> | null, void, undefined> {
    let seen = since
    while (!signal?.aborted && !this.#session.isClosed) {
      const wakeUp = wakeOn(this.#session, { kind: 'state', name: this.key }, signal)
      try {
        if ((await this.#version()) !== seen) {
          const entry = await this.get()
          const version = entry?.version ?? 0
          if (version === seen) continue
          seen = version
          yield entry
        } else {
          await wakeUp.sleep(this.#session.engine.hearsRings ? watchHeardMs : watchPollMs)
        }
      } finally {
        wakeUp.end()
      }
    }
  }

  /** Cheaper than reading the value, which may be large and usually has not changed. */
  #version(): Promise<number> {
    return this.#session.call('state.version', { key: this.key })
  }

  #parsed(stored: unknown): Promise<Output> {
    return parsed(this.#schema, stored, documentAt(this.key))
  }
}

/** Which keys to list, and how many per page. */
export type StateListOptions = AskedOf<'state.list'>

/** `hf.state`: one document by its key, or a list of keys. */
export interface States {
  /** The document under a key. Reads nothing yet. */
  <Input extends Storable<Input> = unknown, Output = Input>(
    key: string,
    options?: StateOptions<Input, Output>,
  ): State<Input, Output>
  /** Keys that begin with a prefix, in order, one page at a time, without their values. */
  list(options?: StateListOptions): Promise<StatePage>
}

export function statesOf(session: Session): States {
  return Object.assign(
    <Input, Output>(key: string, options?: StateOptions<Input, Output>) =>
      new State<Input, Output>(session, key, options),
    { list: (options: StateListOptions = {}) => session.ask('state.list', {}, options) },
  )
}
