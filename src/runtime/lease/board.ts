/**
 * The board: the leases this process holds and its waiters in lock lines, in memory that both threads share. The main
 * thread adds a lease when it is granted and strikes it when it ends; the caretaker reads what to renew and writes new
 * deadlines. Renewing a lease takes no message between threads, so a handler may block the event loop as soon as it
 * starts, and `assertHeld()` is exact however busy the loop was.
 */
import { firstDutyAt } from '../../domain/duty.ts'
import { HoldfastError } from '../../errors.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'

const maxLeases = 4096
/** Claiming an item may also grant the processing lock of its queue, for which nobody reserved room. */
const spare = 256
/** A waiter for a lock needs a slot for itself and another for the lock. */
const maxWaiters = maxLeases
const maxSlots = maxLeases + spare + maxWaiters
/** A lock name has up to 200 characters of up to 4 bytes each, plus a slot number or a waiter id. */
const maxIdBytes = 1024
const kinds = ['item', 'lock', 'waiter'] as const
/** Offsets of the numbers that belong to no slot. */
const stateAt = { beat: 0, used: 1, held: 2, writes: 3, sleepsUntil: 4 } as const
const stateSize = Object.keys(stateAt).length

/** The lowest bits of a stamp count the uses of its slot; the rest hold the deadline, enough for 70 years of uptime. */
const useBits = 12n

export interface BoardEntry {
  readonly kind: (typeof kinds)[number]
  readonly id: string
  readonly token: number
  readonly slot: number
  readonly leaseMs: number
  /** Monotonic time just before the request that was granted. */
  readonly requestedAt: number
  /** Its deadline as stored on the board, tied to this one lease: see `extend`. */
  readonly stamp: bigint
}

export type BoardLease = BoardEntry & LeaseRef
type BoardWaiter = BoardEntry & { readonly kind: 'waiter' }

/** A lease as granted, before it has a slot. */
export type GrantedLease = Omit<BoardLease, 'slot' | 'stamp'>
/** A waiter as it joined the line, before it has a slot. */
export type TakenWaiter = Omit<BoardWaiter, 'slot' | 'stamp'>

export class Board {
  readonly buffer: SharedArrayBuffer
  // Integers only, because nothing else can be stored atomically: times are in microseconds.
  readonly #tokens: BigInt64Array<SharedArrayBuffer>
  /**
   * Deadline and use count of each slot in one number, so that one compare-and-set changes only this lease's deadline.
   */
  readonly #stamps: BigInt64Array<SharedArrayBuffer>
  readonly #requestedAt: BigInt64Array<SharedArrayBuffer>
  readonly #leaseMs: BigInt64Array<SharedArrayBuffer>
  /** Length of the id times the number of kinds, plus the kind. */
  readonly #idLengths: BigInt64Array<SharedArrayBuffer>
  /** Last beat of the main loop; slots ever used; slots in use; writes so far; when the caretaker wakes up. */
  readonly #state: BigInt64Array<SharedArrayBuffer>
  readonly #ids: Buffer
  readonly #free: number[] = []
  /** Slots of waiters: they do not count against the room for leases. */
  readonly #waiters = new Set<number>()
  #wakeCaretaker: () => void = () => {}

  constructor(buffer = new SharedArrayBuffer(maxSlots * (5 * 8 + maxIdBytes) + stateSize * 8)) {
    this.buffer = buffer
    const numbers = (block: number, length = maxSlots) =>
      new BigInt64Array(buffer, block * maxSlots * 8, length)
    this.#tokens = numbers(0)
    this.#stamps = numbers(1)
    this.#requestedAt = numbers(2)
    this.#leaseMs = numbers(3)
    this.#idLengths = numbers(4)
    this.#state = numbers(5, stateSize)
    this.#ids = Buffer.from(buffer, 5 * maxSlots * 8 + stateSize * 8)
  }

  /** Main thread: throws unless there is room for `count` more leases. */
  assertFree(count: number, most = maxLeases): void {
    const held = this.#used - this.#free.length - this.#waiters.size
    if (held + count <= most) return
    throw new HoldfastError('INVALID', {
      what: `this process holds ${held} leases and asks for ${count} more; it can keep ${maxLeases}`,
      next: 'finish or release some before claiming more',
      facts: { held, asked: count, maxLeases },
    })
  }

  /** Main thread: adds a lease; from now on it is renewed. */
  write(lease: GrantedLease, deadline: number): number {
    this.assertFree(1, maxLeases + spare)
    return this.#write(lease, deadline)
  }

  /** Main thread: adds a waiter. Null if there is no room: the waiter then has to renew itself. */
  writeWaiter(waiter: TakenWaiter): number | null {
    if (this.#waiters.size >= maxWaiters) return null
    const slot = this.#write(waiter, waiter.requestedAt + waiter.leaseMs)
    this.#waiters.add(slot)
    return slot
  }

  #write(lease: GrantedLease | TakenWaiter, deadline: number): number {
    const slot = this.#free.pop() ?? this.#used
    const length = this.#ids.write(lease.id, slot * maxIdBytes, maxIdBytes)
    this.#idLengths[slot] = BigInt(length * kinds.length + kinds.indexOf(lease.kind))
    this.#leaseMs[slot] = BigInt(lease.leaseMs)
    this.#requestedAt[slot] = toMicroseconds(lease.requestedAt)
    Atomics.store(this.#stamps, slot, stampOf(deadline, useOf(Atomics.load(this.#stamps, slot)) + 1n))
    // The token last: a reader that sees it also sees the rest.
    Atomics.store(this.#tokens, slot, BigInt(lease.token))
    if (slot === this.#used) Atomics.store(this.#state, stateAt.used, BigInt(slot + 1))
    Atomics.add(this.#state, stateAt.held, 1n)
    this.#announce(lease)
    return slot
  }

  /** Main thread: calls back when a lease needs the caretaker before it would wake up by itself. */
  onEarlierDuty(wake: () => void): void {
    this.#wakeCaretaker = wake
  }

  /** A caretaker that is just falling asleep notices the write: see `sleep`. */
  #announce(lease: Pick<BoardEntry, 'requestedAt' | 'leaseMs'>): void {
    Atomics.add(this.#state, stateAt.writes, 1n)
    const neededAt = toMicroseconds(firstDutyAt(lease))
    if (neededAt >= Atomics.load(this.#state, stateAt.sleepsUntil)) return
    // Waking it once is enough: later writes wake it again only if they need it earlier still.
    Atomics.store(this.#state, stateAt.sleepsUntil, neededAt)
    this.#wakeCaretaker()
  }

  /** Writes so far. Read it before reading the leases; `sleep` then tells whether new ones came in. */
  get writes(): bigint {
    return Atomics.load(this.#state, stateAt.writes)
  }

  /** Caretaker: marks it as awake, so that nobody wakes it. */
  awake(): void {
    Atomics.store(this.#state, stateAt.sleepsUntil, 0n)
  }

  /** Caretaker: goes to sleep; any earlier duty wakes it. False if something was written that it has not read. */
  sleep(until: number, seenWrites: bigint): boolean {
    Atomics.store(this.#state, stateAt.sleepsUntil, toMicroseconds(until))
    return this.writes === seenWrites
  }

  /** Whether this process holds or waits for anything at all. */
  get isHolding(): boolean {
    return Atomics.load(this.#state, stateAt.held) > 0n
  }

  /** Main thread: the lease keeps its slot but is not renewed until it is resumed. Marked by a negative token. */
  suspend(slot: number): void {
    Atomics.store(this.#tokens, slot, -magnitude(Atomics.load(this.#tokens, slot)))
  }

  resume(slot: number): void {
    Atomics.store(this.#tokens, slot, magnitude(Atomics.load(this.#tokens, slot)))
    this.#announce({ requestedAt: this.#requestedMs(slot), leaseMs: Number(this.#leaseMs[slot]) })
  }

  /** Main thread: the lease has ended; its slot may be reused. */
  strike(slot: number): void {
    Atomics.store(this.#tokens, slot, 0n)
    Atomics.sub(this.#state, stateAt.held, 1n)
    this.#waiters.delete(slot)
    this.#free.push(slot)
  }

  /** Caretaker: what to renew in a slot. Null if there is nothing, or the slot was reused during the read. */
  read(slot: number): BoardEntry | null {
    const token = Atomics.load(this.#tokens, slot)
    if (token <= 0n) return null
    const stamp = Atomics.load(this.#stamps, slot)
    const sized = Number(this.#idLengths[slot])
    const start = slot * maxIdBytes
    const lease: BoardEntry = {
      slot,
      kind: kinds[sized % kinds.length] as BoardEntry['kind'],
      id: this.#ids.toString('utf8', start, start + Math.floor(sized / kinds.length)),
      token: Number(token),
      leaseMs: Number(this.#leaseMs[slot]),
      requestedAt: this.#requestedMs(slot),
      stamp,
    }
    // Both checks are needed: leases granted in the same millisecond share a token.
    const isSameUse = useOf(Atomics.load(this.#stamps, slot)) === useOf(stamp)
    return isSameUse && Atomics.load(this.#tokens, slot) === token ? lease : null
  }

  /** Caretaker: all leases to renew, each with its slot. */
  *leases(): Generator<BoardLease> {
    for (const entry of this.#entries()) if (entry.kind !== 'waiter') yield entry as BoardLease
  }

  /** Caretaker: all waiters to renew. */
  *waiters(): Generator<BoardWaiter> {
    for (const entry of this.#entries()) if (entry.kind === 'waiter') yield entry as BoardWaiter
  }

  *#entries(): Generator<BoardEntry> {
    for (let slot = 0; slot < this.#used; slot++) {
      const entry = this.read(slot)
      if (entry) yield entry
    }
  }

  #requestedMs(slot: number): number {
    return Number(this.#requestedAt[slot]) / 1000
  }

  /**
   * Caretaker: sets a later deadline for a lease it has renewed. False if the lease has ended meanwhile or has another
   * deadline: the slot may belong to a new lease, which was not renewed.
   */
  extend({ slot, stamp }: Pick<BoardEntry, 'slot' | 'stamp'>, deadline: number): boolean {
    return Atomics.compareExchange(this.#stamps, slot, stamp, stampOf(deadline, useOf(stamp))) === stamp
  }

  /** Main thread: moves the deadline of a slot to at least this; the caretaker may be extending it at the same time. */
  extendTo(slot: number, deadline: number): void {
    for (let isDone = false; !isDone; ) {
      const stamp = Atomics.load(this.#stamps, slot)
      isDone = deadlineOf(stamp) >= deadline || this.extend({ slot, stamp }, deadline)
    }
  }

  deadlineOf(slot: number): number {
    return deadlineOf(Atomics.load(this.#stamps, slot))
  }

  /** Main thread: reports that the event loop is turning. */
  beat(now: number): void {
    Atomics.store(this.#state, stateAt.beat, toMicroseconds(now))
  }

  get beatAt(): number {
    return Number(Atomics.load(this.#state, stateAt.beat)) / 1000
  }

  get #used(): number {
    return Number(Atomics.load(this.#state, stateAt.used))
  }
}

function stampOf(deadline: number, use: bigint): bigint {
  return (toMicroseconds(deadline) << useBits) | BigInt.asUintN(Number(useBits), use)
}

function useOf(stamp: bigint): bigint {
  return BigInt.asUintN(Number(useBits), stamp)
}

function deadlineOf(stamp: bigint): number {
  return Number(stamp >> useBits) / 1000
}

function magnitude(token: bigint): bigint {
  return token < 0n ? -token : token
}

function toMicroseconds(ms: number): bigint {
  return BigInt(Math.floor(ms * 1000))
}
