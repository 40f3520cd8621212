/**
 * The lease clock of a PostgreSQL store is the server's. A process that sees it disagree with its own awake time, or
 * that found another server after a failover, judges no lease by it for a while.
 */
import { doubtfulForMs } from '../../domain/clock-check.ts'
import type { Outage } from '../../domain/outage.ts'
import type { Environment } from '../../environment.ts'
import type { Query, Row } from './plan.ts'

const disagreesMs = 2_000
/** A server that has not answered for this long counts as out of reach. */
const outageMs = 3_000

/** The server's clock minus the awake time of this process lies between these. */
interface Offset {
  readonly least: number
  readonly most: number
}

export class ServerClock {
  readonly #environment: Environment
  readonly #onDoubt: (facts: { reason: string; byMs: number }) => void
  #offset: Offset | null = null
  #doubtfulUntil = Number.NEGATIVE_INFINITY
  #doubts = 0
  /** The clock is new to us, and until this time nobody vouches for it; null: this was never asked. */
  #uncheckedUntil: number | null = null
  #checkedAt = 0
  #seen: number | null = null
  /** Since when the server has been asked and could not be reached, monotonic ms. */
  #missedSince: number | null = null
  #outage: Outage | null = null

  constructor(environment: Environment, onDoubt: (facts: { reason: string; byMs: number }) => void) {
    this.#environment = environment
    this.#onDoubt = onDoubt
  }

  /**
   * Takes what the server's clock showed at some time between the question and now. An answer that took long says
   * little, and is no sign that the clock was moved.
   */
  note(now: number, askedAt: number): void {
    this.#noteOutage(now, askedAt)
    const seen: Offset = { least: now - this.#environment.monotonic(), most: now - askedAt }
    const byMs = this.#offset === null ? 0 : distance(this.#offset, seen)
    this.#offset = this.#offset === null ? seen : (overlap(this.#offset, seen) ?? seen)
    if (Math.abs(byMs) > disagreesMs)
      this.doubt('the clocks of the server and of this process disagree', byMs)
    else if (seen.most - seen.least <= disagreesMs) this.#checkedAt = now
  }

  /** The server was asked and could not be reached. */
  missed(): void {
    this.#missedSince ??= this.#environment.monotonic()
  }

  /** A process that did not ask has learned nothing: only a question that stayed open shows an outage. */
  #noteOutage(now: number, askedAt: number): void {
    const openSince = Math.min(askedAt, this.#missedSince ?? askedAt)
    const wasOpen = this.#environment.monotonic() - openSince > outageMs
    if (wasOpen && this.#seen !== null && now - this.#seen > outageMs)
      this.#outage = { since: this.#seen, until: now }
    this.#seen = now
    this.#missedSince = null
  }

  /** How often there was a reason to doubt the clock. */
  get doubts(): number {
    return this.#doubts
  }

  doubt(reason: string, byMs = 0): void {
    this.#doubts++
    this.#doubtfulUntil = this.#environment.monotonic() + doubtfulForMs
    this.#onDoubt({ reason, byMs: Math.round(byMs) })
  }

  /**
   * Until when nobody vouches for the clock. Never later than said before, because the mark ages while we look at it.
   */
  uncheckedUntil(at: number, { reason }: { reason: string }): void {
    const wasAsked = this.#uncheckedUntil !== null
    this.#uncheckedUntil = Math.min(this.#uncheckedUntil ?? at, at)
    if (!wasAsked && this.isUnchecked) this.#onDoubt({ reason, byMs: 0 })
  }

  get isUnchecked(): boolean {
    return this.#uncheckedUntil !== null && this.#environment.monotonic() < this.#uncheckedUntil
  }

  /** What the clock showed when it last agreed with that of this process; 0: never. */
  get checkedAt(): number {
    return this.#checkedAt
  }

  /** The last time the server failed to answer for long, on its own clock. */
  get outage(): Outage | null {
    return this.#outage
  }

  get isDoubtful(): boolean {
    return this.isUnchecked || this.#environment.monotonic() < this.#doubtfulUntil
  }
}

/** The least by which the clock must have been moved; 0 if both readings may be true. */
function distance(before: Offset, after: Offset): number {
  if (after.least > before.most) return after.least - before.most
  return after.most < before.least ? after.most - before.least : 0
}

function overlap(left: Offset, right: Offset): Offset | null {
  const both = { least: Math.max(left.least, right.least), most: Math.min(left.most, right.most) }
  return both.least <= both.most ? both : null
}

/**
 * Tests move the time of a store: their own clocks replace the server's, at an offset that all processes of a boot
 * share, as on SQLite.
 */
export async function movedOffset(
  environment: Environment,
  send: (query: Query) => Promise<readonly Row[]>,
): Promise<number> {
  const key = `moved_clock:${environment.host.identity.bootId}`
  const [last] = await send({ text: 'select max(at) from holdfast.event', values: [] })
  const offset = Math.max(environment.now(), Number(last?.[0] ?? 0)) - Math.floor(environment.monotonic())
  await send({
    text: 'insert into holdfast.meta (key, value) values ($1, $2) on conflict (key) do nothing',
    values: [key, String(offset)],
  })
  const [row] = await send({ text: 'select value from holdfast.meta where key = $1', values: [key] })
  return Number(row?.[0])
}
