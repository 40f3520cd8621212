/**
 * The lease clock of a PostgreSQL store is the server's. A process that sees it disagree with its own awake time, or
 * that met another server after a failover, judges no lease by it for a while.
 */
import type { Environment } from '../../environment.ts'
import type { Query, Row } from './plan.ts'

const disagreesMs = 2_000
const doubtfulForMs = 10_000

export class ServerClock {
  readonly #environment: Environment
  readonly #onDoubt: (facts: { reason: string; byMs: number }) => void
  #offset: number | null = null
  #doubtfulUntil = Number.NEGATIVE_INFINITY

  constructor(environment: Environment, onDoubt: (facts: { reason: string; byMs: number }) => void) {
    this.#environment = environment
    this.#onDoubt = onDoubt
  }

  /** What the server's clock showed in a batch that has just ended. */
  note(now: number): void {
    const offset = now - this.#environment.monotonic()
    const byMs = this.#offset === null ? 0 : offset - this.#offset
    // An answer that was long under way makes the server look slow, never fast.
    if (this.#offset === null || Math.abs(byMs) > disagreesMs) this.#offset = offset
    else this.#offset = Math.max(this.#offset, offset)
    if (Math.abs(byMs) > disagreesMs)
      this.doubt('the clock of the server and that of this process disagree', byMs)
  }

  doubt(reason: string, byMs = 0): void {
    this.#doubtfulUntil = this.#environment.monotonic() + doubtfulForMs
    this.#onDoubt({ reason, byMs: Math.round(byMs) })
  }

  get isDoubtful(): boolean {
    return this.#environment.monotonic() < this.#doubtfulUntil
  }
}

/**
 * Tests move the time of a store: their own clocks take the place of the server's, on an offset that all processes
 * of a boot share, as on SQLite.
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
