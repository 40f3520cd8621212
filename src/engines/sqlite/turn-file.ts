/**
 * Who is writing and who is waiting, in a small file beside the store that every process reads and writes. It is a
 * courtesy, not a lock: only SQLite grants the right to write, so a lost, torn or contradictory record costs nothing
 * but time. Each turn records when it ends, on the clock that all processes of a boot share, so a process that dies or
 * is suspended keeps its turn for at most 40 ms.
 */
import { constants, readSync, writeSync } from 'node:fs'
import type { Environment } from '../../environment.ts'
import { HelperFile, turnEnd } from './helper-file.ts'

/** The line as one process sees it when it reads the file. */
export interface Line {
  /** When the last turn ended or was given back, or when the current one will end. */
  readonly freeAt: number
  /** When that turn began, or was given back. */
  readonly startedAt: number
  /** How many others are waiting, and how many of them have waited longer than we have. */
  readonly waiting: number
  readonly before: number
}

/**
 * The first record is the turn: its owner, when it is free, when it began. Every other record is a waiting process: its
 * id, since when it waits, when it was last seen.
 */
const recordNumbers = 3
const recordBytes = recordNumbers * Float64Array.BYTES_PER_ELEMENT
const maxRecords = 128
/** Waiting processes look more often than this, so one not seen for this long is gone or suspended. */
const seenForMs = 100
/** No turn is longer. A record that says otherwise is torn or from another boot. */
export const maxTurnMs = 40

export class TurnFile {
  readonly #file: HelperFile
  readonly #who: number
  readonly #numbers = new Float64Array(maxRecords * recordNumbers)
  readonly #bytes = new Uint8Array(this.#numbers.buffer)
  readonly #record = new Float64Array(recordNumbers)
  readonly #recordBytes = new Uint8Array(this.#record.buffer)
  #slot: number | null = null

  constructor(store: string, environment: Environment) {
    this.#file = new HelperFile(store, turnEnd, constants.O_RDWR)
    this.#who = 1 + Math.floor(environment.random() * Number.MAX_SAFE_INTEGER)
  }

  /** When our turn ends; null if it is not our turn, or another process decided it was over. */
  ourEnd(): number | null {
    return this.#read(recordBytes) && this.#numbers[0] === this.#who ? (this.#numbers[1] as number) : null
  }

  /** Null: the file is unavailable, and everybody does without it. */
  look(since: number, now: number): Line | null {
    if (!this.#read(this.#bytes.length)) return null
    const [, freeAt = 0, startedAt = 0] = this.#numbers
    const isCredible = freeAt <= now + maxTurnMs && startedAt <= now
    let [waiting, before] = [0, 0]
    for (let slot = 1; slot < maxRecords; slot++) {
      if (!this.#isWaiting(slot, now) || this.#whoAt(slot) === this.#who) continue
      waiting++
      if ((this.#numbers[slot * recordNumbers + 1] as number) < since) before++
    }
    return { ...(isCredible ? { freeAt, startedAt } : { freeAt: 0, startedAt: 0 }), waiting, before }
  }

  /** Keeps our record in the line alive; called after each look. */
  wait(since: number, now: number): void {
    if (this.#slot === null || this.#whoAt(this.#slot) !== this.#who) this.#slot = this.#freeSlot(now)
    if (this.#slot !== null) this.#write(this.#slot, this.#who, since, now)
  }

  leave(): void {
    if (this.#slot !== null) this.#write(this.#slot, 0, 0, 0)
    this.#slot = null
  }

  take(now: number, turnMs: number): void {
    this.leave()
    this.#write(0, this.#who, now + turnMs, now)
  }

  /** Ends our turn. If another process has taken it in the meantime, that one keeps it. */
  give(now: number): void {
    if (this.ourEnd() !== null) this.#write(0, 0, now, now)
  }

  close(): void {
    this.leave()
    this.#file.close()
  }

  #whoAt(slot: number): number {
    return this.#numbers[slot * recordNumbers] as number
  }

  #isWaiting(slot: number, now: number): boolean {
    const seenAt = this.#numbers[slot * recordNumbers + 2] as number
    return this.#whoAt(slot) !== 0 && seenAt <= now && seenAt > now - seenForMs
  }

  #freeSlot(now: number): number | null {
    // Start at a slot derived from our id, so that two processes arriving together do not pick the same one.
    const slots = maxRecords - 1
    for (let step = 0; step < slots; step++) {
      const slot = 1 + ((this.#who + step) % slots)
      if (!this.#isWaiting(slot, now)) return slot
    }
    return null
  }

  #read(length: number): boolean {
    try {
      const read = readSync(this.#file.open(), this.#bytes, 0, length, 0)
      this.#bytes.fill(0, read, length)
      return true
    } catch {
      return false
    }
  }

  #write(slot: number, who: number, first: number, second: number): void {
    if (!this.#file.isOpen) return
    this.#record[0] = who
    this.#record[1] = first
    this.#record[2] = second
    try {
      writeSync(this.#file.open(), this.#recordBytes, 0, recordBytes, slot * recordBytes)
    } catch {
      // The disk is full: nobody sees us, and we wait as if there were no line.
    }
  }
}
