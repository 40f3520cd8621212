/**
 * Deadlines of held leases in memory that both threads see: the caretaker writes them at each renewal, the main
 * thread reads them, so that `assertHeld()` is exact even after the main loop was busy for minutes.
 */
import { HoldfastError } from '../errors.ts'

const leasesMax = 4096
const beatSlot = leasesMax

export class Deadlines {
  readonly buffer: SharedArrayBuffer
  /** Monotonic microseconds; whole numbers, because only those can be stored atomically. */
  readonly #slots: BigInt64Array<SharedArrayBuffer>

  constructor(buffer = new SharedArrayBuffer((leasesMax + 1) * 8)) {
    this.buffer = buffer
    this.#slots = new BigInt64Array(buffer)
  }

  set(slot: number, deadlineMs: number): void {
    Atomics.store(this.#slots, slot, BigInt(Math.floor(deadlineMs * 1000)))
  }

  get(slot: number): number {
    return Number(Atomics.load(this.#slots, slot)) / 1000
  }

  beat(nowMs: number): void {
    this.set(beatSlot, nowMs)
  }

  get beatAt(): number {
    return this.get(beatSlot)
  }
}

/** Hands out slots of the deadlines. */
export class Slots {
  readonly #free: number[] = []
  #used = 0

  assertFree(count: number): void {
    if (this.#used - this.#free.length + count <= leasesMax) return
    throw new HoldfastError('INVALID', {
      what: `this process holds ${this.#used - this.#free.length} leases and can keep ${leasesMax}`,
      next: 'finish or release some before claiming more',
      facts: { leasesMax },
    })
  }

  take(): number {
    this.assertFree(1)
    return this.#free.pop() ?? this.#used++
  }

  giveBack(slot: number): void {
    this.#free.push(slot)
  }
}
