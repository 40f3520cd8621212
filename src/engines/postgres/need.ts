/** Something a command needs: how to load it, and what was answered. */
import type { Selector } from '../../port/selector.ts'
import type { Plan, Query, Row } from './plan.ts'

export interface Need {
  readonly field: string
  readonly selector: Selector | null
  readonly plan: Plan
  answers: readonly (readonly Row[])[]
}

export interface AskedQuery {
  readonly query: Query
  readonly takers: ((rows: Row[]) => void)[]
}

/** Fifty commands on one queue ask for its definition fifty times: the query is sent once. */
export function distinct(needs: readonly Need[]): AskedQuery[] {
  const asked: AskedQuery[] = []
  const known = new Map<string, Map<string, AskedQuery>>()
  for (const need of needs) {
    const answers: Row[][] = []
    need.answers = answers
    for (const [index, query] of need.plan.queries.entries()) {
      const alike = known.get(query.text) ?? new Map<string, AskedQuery>()
      const values = JSON.stringify(query.values)
      const same = alike.get(values) ?? { query, takers: [] }
      if (same.takers.length === 0) asked.push(same)
      known.set(query.text, alike.set(values, same))
      same.takers.push((rows) => {
        answers[index] = rows
      })
    }
  }
  return asked
}
