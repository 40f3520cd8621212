/** Per-minute limits while several deliveries or escalations are decided at once. */
import { type Allowance, type Marks, takeAllowance } from '../../domain/allowance.ts'
import type { Change } from '../../port/decision.ts'
import { allowanceChange } from './thread.ts'

/** Hands out each time slot once. A slot in the future belongs to whoever was deferred to it. */
export class Allowances {
  readonly #before: ReadonlyMap<string, Allowance>
  readonly #marks = new Map<string, Marks>()
  readonly #now: number

  constructor(allowances: readonly Allowance[], now: number) {
    this.#before = new Map(allowances.map((allowance) => [allowance.name, allowance]))
    this.#now = now
  }

  take(name: string, limit: number): number {
    const known = this.#marks.get(name) ?? this.#before.get(name)?.marks ?? []
    const { at, marks } = takeAllowance(known, limit, this.#now)
    this.#marks.set(name, marks)
    return at
  }

  changes(): Change[] {
    return [...this.#marks].flatMap(([name, marks]) =>
      allowanceChange(name, this.#before.get(name) ?? null, marks),
    )
  }
}
