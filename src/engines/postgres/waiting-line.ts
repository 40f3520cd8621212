/**
 * Commands that wait for a lane, and which of them go into the next batch. Renewals wait for whichever lane is free
 * first.
 */
import type { Prepared } from '../../operations/decide.ts'

/** A command waiting for its answer. */
export interface Waiting {
  readonly prepared: Prepared
  /** A renewal keeps leases alive, or checks whether they are. */
  readonly kind: 'renewal' | 'read' | 'write'
  /** Roughly how many bytes it takes to send what it changes. */
  readonly bytes: number
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
  /** When it was asked, and when it is given up if no server can be reached, monotonic ms. */
  readonly askedAt: number
  readonly deadline: number
  /** Names it turned out to need in addition to those it asks for at first. */
  readonly moreNames: Set<string>
  /** What it names looks like an id and turned out not to be one. */
  alsoSearchesKeys: boolean
  /** A batch was closed without it. */
  wasDeferred: boolean
  /** Its caller was told that no server could be reached in time, so it must not run any more. */
  isGivenUp: boolean
  /** How often it was answered in part, because an open transaction held the rest back. */
  reads: number
  /** How many commands may share a batch with it, itself included. */
  maxInBatch: number
}

/** What a command is asked with. */
export type Asked = Pick<Waiting, 'prepared' | 'kind' | 'resolve' | 'reject' | 'askedAt' | 'deadline'>

const maxBatch = 500

/** A slow link takes a second for this much, and the rows of a batch are held for as long. */
const maxBatchBytes = 2 ** 20

/** A batch whose connection was lost is split into this many: perhaps it was too much for its link. */
const maxPieces = 16

export function waitingFor(asked: Asked): Waiting {
  const { kind, prepared } = asked
  return {
    ...asked,
    // New data is sent twice: as a row, and with its event.
    bytes: kind === 'write' ? 2 * bytesIn(prepared.input) : 0,
    moreNames: new Set(),
    alsoSearchesKeys: false,
    wasDeferred: false,
    isGivenUp: false,
    reads: 0,
    maxInBatch: maxBatch,
  }
}

function bytesIn(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (typeof value !== 'object' || value === null) return 0
  let bytes = 0
  for (const each of Object.values(value)) bytes += bytesIn(each)
  return bytes
}

export class WaitingLine {
  /** Shared by the lanes of an engine. */
  readonly #renewals: Waiting[]
  #own: Waiting[] = []
  #wasRenewal = false
  /** How many commands may share the next batch. */
  #maxTogether = maxBatch

  constructor(renewals: Waiting[]) {
    this.#renewals = renewals
  }

  get isEmpty(): boolean {
    return this.#own.length === 0 && this.#renewals.length === 0
  }

  /** Renewals wait for any lane to be free. */
  get hasRenewals(): boolean {
    return this.#renewals.length > 0
  }

  /** What waits for this lane alone. */
  get own(): readonly Waiting[] {
    return this.#own
  }

  add(...waiting: readonly Waiting[]): void {
    for (const each of waiting) (each.kind === 'renewal' ? this.#renewals : this.#own).push(each)
  }

  /** Puts them before all others. */
  putBack(waiting: readonly Waiting[]): void {
    this.#renewals.unshift(...waiting.filter(({ kind }) => kind === 'renewal'))
    this.#own.unshift(...waiting.filter(({ kind }) => kind !== 'renewal'))
  }

  /** The same, but in smaller batches from now on. */
  takeApart(waiting: readonly Waiting[]): void {
    for (const each of waiting) each.maxInBatch = Math.ceil(waiting.length / maxPieces)
    this.putBack(waiting)
  }

  /**
   * Puts back what a batch left undecided. If most of it has been left before, and again because one command closed the
   * batch, the next ones are small: with all of them in each, a hundred would load their rows a hundred times. A batch
   * that was not closed stays large, because others may decide alongside those that cannot.
   */
  putOff(left: readonly Waiting[], { answered, isClosed }: { answered: number; isClosed: boolean }): void {
    const again = left.filter(({ wasDeferred }) => wasDeferred).length
    const isFutile = isClosed && again > answered
    this.#maxTogether = isFutile ? 2 * Math.max(1, answered) : Math.min(maxBatch, 2 * this.#maxTogether)
    for (const waiting of left) waiting.wasDeferred = true
    this.putBack(left.filter(({ isGivenUp }) => !isGivenUp))
  }

  drop(given: ReadonlySet<Waiting>): void {
    this.#own = this.#own.filter((waiting) => !given.has(waiting))
  }

  /**
   * Takes the next commands that may share a transaction. Renewals go first, but not twice in a row while others wait.
   * The line must not be empty.
   */
  take(): Waiting[] {
    const renews = this.#renewals.length > 0 && !(this.#wasRenewal && this.#own.length > 0)
    this.#wasRenewal = renews
    const from = renews ? this.#renewals : this.#own
    const [first] = from as [Waiting]
    const batch: Waiting[] = []
    const rest: Waiting[] = []
    let bytesLeft = maxBatchBytes
    let roomLeft = this.#maxTogether
    for (const waiting of from) {
      if (!isAlike(waiting, first)) {
        rest.push(waiting)
        continue
      }
      roomLeft = Math.min(roomLeft, waiting.maxInBatch - batch.length)
      const fits = roomLeft > 0 && (waiting === first || waiting.bytes <= bytesLeft)
      // Nobody overtakes a command that does not fit.
      if (!fits) roomLeft = 0
      else {
        roomLeft--
        bytesLeft -= waiting.bytes
      }
      ;(fits ? batch : rest).push(waiting)
    }
    // In place, because lanes share the renewals. As arguments, a hundred thousand commands would overflow the stack.
    from.length = 0
    for (const waiting of rest) from.push(waiting)
    return batch
  }

  /** Nothing was waiting, so the next command has not been passed over. */
  rest(): void {
    this.#wasRenewal = false
  }
}

/** Of one namespace, all reads or all writes, and reads that are retried apart from those read for the first time. */
function isAlike(left: Waiting, right: Waiting): boolean {
  return (
    left.kind === right.kind &&
    left.prepared.command.namespace === right.prepared.command.namespace &&
    isRead(left.prepared) === isRead(right.prepared) &&
    left.reads > 0 === right.reads > 0
  )
}

export function isRead({ operation }: Prepared): boolean {
  return operation.effect === 'read'
}
