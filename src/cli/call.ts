/** One command in progress: its store, opened when first needed, and its output. */
import { existsSync } from 'node:fs'
import { jsonLine } from '../domain/text.ts'
import { type HoldfastError, InvalidError, NotFoundError } from '../errors.ts'
import type { Holdfast } from '../handle/holdfast.ts'
import { open } from '../handle/open.ts'
import { systemEnvironment } from '../host/system.ts'
import type { Logger } from '../logger.ts'
import { type InputOf, type OperationName, operations, type ResultOf } from '../operations/table.ts'
import { findDeaths } from '../runtime/caretaker/heal.ts'
import { keyOfPiece } from '../runtime/session/input.ts'
import type { Drawn } from './drawing.ts'
import { failureOf } from './failure.ts'
import { makeFolderFor, storeFile } from './home.ts'
import type { Io } from './io.ts'
import { LeaseFiles, leaseFolder } from './lease-file.ts'
import { printJson, printTalk, printText } from './print.ts'
import { isStoreNamed, type Settings } from './settings.ts'
import { type Known, type View, viewFor } from './view.ts'

export type Input = Readonly<Record<string, unknown>>

export interface CallParts
  extends Pick<CommandCall, 'io' | 'settings' | 'isJson' | 'idempotencyKey' | 'input' | 'options' | 'rest'> {
  /** Creates the store if it does not exist. */
  readonly mayMake: boolean
  /** First reclaims what has lapsed and what dead processes held. */
  readonly heals: boolean
  /** This process itself holds what it claims, and renews it. */
  readonly lives: boolean
}

export class CommandCall {
  readonly io: Io
  readonly settings: Settings
  readonly isJson: boolean
  readonly idempotencyKey: string | undefined
  /** Options of the command line itself, under commander's names. */
  readonly options: Input
  /** The words after the options of `run`. */
  readonly rest: readonly string[]
  readonly view: View
  readonly leases: LeaseFiles
  input: Input
  /** The process named by `--for-pid`. */
  instance: string | undefined
  readonly #parts: CallParts
  #opening: Promise<Holdfast> | null = null
  #opened: Holdfast | null = null
  #known: Known = { leaseAheadMs: 0, dead: new Set() }

  constructor(parts: CallParts) {
    this.#parts = parts
    this.io = parts.io
    this.settings = parts.settings
    this.isJson = parts.isJson
    this.idempotencyKey = parts.idempotencyKey
    this.input = parts.input
    this.options = parts.options
    this.rest = parts.rest
    this.view = viewFor(parts.io, systemEnvironment.now(), () => this.#known)
    const { store, namespace, agent } = parts.settings
    const folder = leaseFolder(store.value, parts.io, (what) => printTalk(parts.io, `warning  ${what}`))
    this.leases = new LeaseFiles(folder, { namespace: namespace.value, agent: agent.value })
  }

  open(): Promise<Holdfast> {
    this.#opening ??= this.#open(this.#parts.mayMake)
    return this.#opening
  }

  /** Creates no store, whatever the verb may do. Null if there is none yet. */
  async openExisting(): Promise<Holdfast | null> {
    try {
      const opened = await (this.#opening ?? this.#open(false))
      this.#opening = Promise.resolve(opened)
      return opened
    } catch (error) {
      if (isNoStore(error)) return null
      throw error
    }
  }

  async #open(mayMake: boolean): Promise<Holdfast> {
    const { store, namespace, agent, durability, busyTimeoutMs, home } = this.settings
    const { heals, lives } = this.#parts
    const file = storeFile(store.value)
    // Before a folder is made for it.
    if (!mayMake && file !== null && !existsSync(file)) throw noStore(file, this.settings)
    if (makeFolderFor(store.value, home, this.#parts.io)) this.say(`made ${home.folder}`)
    this.#opened = await open(store.value, {
      mustExist: !mayMake,
      agent: agent.value,
      namespace: namespace.value,
      durability: durability.value,
      busyTimeoutMs: busyTimeoutMs.value,
      background: lives,
      redelivery: false,
      recovery: { onOpen: heals || lives },
      logger: this.#logger(),
    }).catch((error) => {
      throw isNoStore(error) ? noStore(error.facts.store, this.settings) : error
    })
    return this.#opened
  }

  /** `piece`: the index of this request in a change that takes several, so that each gets its own idempotency key. */
  async execute<Name extends OperationName>(
    operation: Name,
    input: InputOf<Name>,
    piece = 0,
  ): Promise<ResultOf<Name>> {
    const hf = await this.open()
    const isRead = operations.get(operation)?.effect === 'read'
    return await hf.execute(operation, input, {
      ...(isRead ? {} : keyOfPiece(this.idempotencyKey, piece)),
      ...(this.instance === undefined ? {} : { instance: this.instance }),
    })
  }

  /** What a change would do. Takes no idempotency key: that is for the change itself. */
  async preview<Name extends OperationName>(
    operation: Name,
    input: InputOf<Name> & { readonly dryRun?: boolean | undefined },
  ): Promise<ResultOf<Name>> {
    const hf = await this.open()
    return await hf.execute(operation, { ...input, dryRun: true })
  }

  /**
   * Loads what the view needs beside the answer: the offset of the lease clock, because people read wall time, and the
   * dead instances, because a lease does not say that its holder is dead.
   */
  async lookAround(): Promise<void> {
    if (this.#opened === null) return
    const { now, wall } = await this.execute('clock.read', {})
    const deaths = await findDeaths({
      environment: systemEnvironment,
      storeIsLocal: this.#opened.status.engine === 'sqlite',
      execute: (operation, input) => this.execute(operation, input),
    })
    this.#known = { leaseAheadMs: now - wall, dead: new Set(deaths.map(({ instance }) => instance)) }
  }

  /** Claims from now on belong to this process. It must exist, and is recognised by its start time. */
  async bindTo(pid: string): Promise<void> {
    const identity = /^[1-9]\d{0,9}$/.test(pid) ? systemEnvironment.host.identify(Number(pid)) : undefined
    if (identity === undefined) {
      throw new InvalidError({
        what: `--for-pid: "${pid}" is not a process id`,
        next: 'give the pid of a process on this machine, such as $PPID',
      })
    }
    if (identity === null) {
      throw new NotFoundError({
        what: `there is no process ${pid} on this machine`,
        next: 'give the pid of a running process, such as $PPID; nothing was claimed',
        facts: { pid: Number(pid) },
      })
    }
    const hf = await this.open()
    this.instance = (await hf.execute('instance.join', { ...identity })).id
  }

  /**
   * Claims from now on belong to the process that is registered for the agent, if there is one. A command that waits may
   * outlive it, and would then claim by hand, for somebody who is gone.
   */
  async bindToRegistered(): Promise<void> {
    const running = await this.execute('agents.list', { limit: 1000 })
    const registered = running.filter(
      ({ agent, registeredBy }) => agent === this.settings.agent.value && registeredBy !== null,
    )
    const [newest] = registered.sort((left, right) => right.startedAt - left.startedAt)
    this.instance ??= newest?.id
  }

  /** One record of a stream: its text, or its line of JSON. */
  emit(text: Drawn, record: object): void {
    if (this.isJson) printJson(this.io, record)
    else printText(this.io, text)
  }

  /** Prints to stderr. */
  say(text: Drawn): void {
    printTalk(this.io, this.view.talkColors.dim(text))
  }

  /** Prints one line for each lease that healing reclaims, and one if healing fails. */
  #logger(): Logger {
    return {
      warn: (facts, name) => {
        // Verbs whose purpose is healing report it themselves.
        if (name === 'lease.reclaimed' && !this.#parts.heals) return
        if (name === 'lease.reclaimed')
          this.say(`healed ${facts.kind} ${facts.id} of ${facts.holder}: ${facts.evidence}`)
        else printTalk(this.io, `warning  ${name} ${jsonLine(facts)}`)
      },
      error: (facts, name) => printTalk(this.io, `error  ${name} ${jsonLine(facts)}`),
    }
  }

  /** A store that cannot be left in good order changes neither the answer nor the exit code. */
  async close(): Promise<void> {
    await this.#opened?.close().catch((error) => printTalk(this.io, `warning  ${failureOf(error).message}`))
  }
}

function isNoStore(error: unknown): error is NotFoundError & { facts: { store: string } } {
  return error instanceof NotFoundError && typeof error.facts.store === 'string'
}

function noStore(store: string, settings: Settings): HoldfastError {
  const isNamed = isStoreNamed(settings)
  return new NotFoundError({
    what: isNamed ? `there is no store at ${store}` : `there is no store for this folder: none at ${store}`,
    next: isNamed
      ? 'check the address; `holdfast init` creates the store'
      : 'go to the folder of your store, create one with `holdfast init`, or name one with --store or HOLDFAST_URL',
    facts: { store },
  })
}
