/**
 * The board: leases this process holds, in memory that both threads see. The main thread writes a lease down when it
 * is granted and strikes it out when it ends; the caretaker reads what to renew and writes new deadlines. No message
 * has to arrive for a lease to be renewed, so a handler may block the event loop the moment it begins, and
 * `assertHeld()` is exact however busy the loop was.
 */
import { HoldfastError } from '../errors.ts'
import type { LeaseRef } from '../operations/lease.ts'

const leasesMax = 4096
/** A claim of an item may bring the processing lock of its queue along, which nobody has counted on. */
const spare = 256
const slotsMax = leasesMax + spare
/** Names of locks have up to 200 characters of up to 4 bytes, and a slot number. */
const idBytesMax = 1024

export interface BoardLease extends LeaseRef {
  readonly slot: number
  readonly leaseMs: number
  /** Monotonic time just before the request that was granted. */
  readonly requestedAt: number
}

export class Board {
  readonly buffer: SharedArrayBuffer
  // Whole numbers only, because only those can be stored atomically: times are in microseconds.
  readonly #tokens: BigInt64Array<SharedArrayBuffer>
  readonly #deadlines: BigInt64Array<SharedArrayBuffer>
  readonly #requestedAt: BigInt64Array<SharedArrayBuffer>
  readonly #leaseMs: BigInt64Array<SharedArrayBuffer>
  /** Length of the id; negative for a lock. */
  readonly #idLengths: BigInt64Array<SharedArrayBuffer>
  /** Last beat of the main loop, and how many slots were ever used. */
  readonly #state: BigInt64Array<SharedArrayBuffer>
  readonly #ids: Buffer
  readonly #free: number[] = []

  constructor(buffer = new SharedArrayBuffer(slotsMax * (5 * 8 + idBytesMax) + 2 * 8)) {
    this.buffer = buffer
    const numbers = (block: number, length = slotsMax) =>
      new BigInt64Array(buffer, block * slotsMax * 8, length)
    this.#tokens = numbers(0)
    this.#deadlines = numbers(1)
    this.#requestedAt = numbers(2)
    this.#leaseMs = numbers(3)
    this.#idLengths = numbers(4)
    this.#state = numbers(5, 2)
    this.#ids = Buffer.from(buffer, 5 * slotsMax * 8 + 2 * 8)
  }

  /** Main thread: throws unless so many more leases can be kept. */
  assertFree(count: number, most = leasesMax): void {
    const held = this.#used - this.#free.length
    if (held + count <= most) return
    throw new HoldfastError('INVALID', {
      what: `this process holds ${held} leases and asks for ${count} more, and can keep ${leasesMax}`,
      next: 'finish or release some before claiming more',
      facts: { held, asked: count, leasesMax },
    })
  }

  /** Main thread: writes a lease down; from now on it is renewed. */
  write(lease: Omit<BoardLease, 'slot'>, deadline: number): number {
    this.assertFree(1, slotsMax)
    const slot = this.#free.pop() ?? this.#used
    const length = this.#ids.write(lease.id, slot * idBytesMax, idBytesMax)
    this.#idLengths[slot] = BigInt(lease.kind === 'lock' ? -length : length)
    this.#leaseMs[slot] = BigInt(lease.leaseMs)
    this.#requestedAt[slot] = toMicroseconds(lease.requestedAt)
    this.setDeadline(slot, deadline)
    // The token last: a reader that sees it sees the rest.
    Atomics.store(this.#tokens, slot, BigInt(lease.token))
    if (slot === this.#used) Atomics.store(this.#state, 1, BigInt(slot + 1))
    return slot
  }

  /** Main thread: the lease keeps its slot, and is not renewed until it is resumed. Negative tokens say so. */
  suspend(slot: number): void {
    Atomics.store(this.#tokens, slot, -BigInt(Math.abs(this.tokenAt(slot))))
  }

  resume(slot: number): void {
    Atomics.store(this.#tokens, slot, BigInt(Math.abs(this.tokenAt(slot))))
  }

  /** Main thread: the lease has ended; its slot may be used again. */
  strike(slot: number): void {
    Atomics.store(this.#tokens, slot, 0n)
    this.#free.push(slot)
  }

  /** Caretaker: the lease to renew in a slot, or null; null also when it changed while it was read. */
  read(slot: number): BoardLease | null {
    const token = Atomics.load(this.#tokens, slot)
    if (token <= 0n) return null
    const length = Number(this.#idLengths[slot])
    const start = slot * idBytesMax
    const lease: BoardLease = {
      slot,
      kind: length < 0 ? 'lock' : 'item',
      id: this.#ids.toString('utf8', start, start + Math.abs(length)),
      token: Number(token),
      leaseMs: Number(this.#leaseMs[slot]),
      requestedAt: Number(this.#requestedAt[slot]) / 1000,
    }
    return Atomics.load(this.#tokens, slot) === token ? lease : null
  }

  /** Caretaker: all leases to renew, each with its slot. */
  *leases(): Generator<BoardLease> {
    for (let slot = 0; slot < this.#used; slot++) {
      const lease = this.read(slot)
      if (lease) yield lease
    }
  }

  tokenAt(slot: number): number {
    return Number(Atomics.load(this.#tokens, slot))
  }

  setDeadline(slot: number, deadline: number): void {
    Atomics.store(this.#deadlines, slot, toMicroseconds(deadline))
  }

  deadlineOf(slot: number): number {
    return Number(Atomics.load(this.#deadlines, slot)) / 1000
  }

  /** Main thread: the event loop turns. */
  beat(now: number): void {
    Atomics.store(this.#state, 0, toMicroseconds(now))
  }

  get beatAt(): number {
    return Number(Atomics.load(this.#state, 0)) / 1000
  }

  get #used(): number {
    return Number(Atomics.load(this.#state, 1))
  }
}

function toMicroseconds(ms: number): bigint {
  return BigInt(Math.floor(ms * 1000))
}
