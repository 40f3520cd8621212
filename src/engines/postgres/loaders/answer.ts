/** Answers kept for idempotency keys. */
import type { Answer } from '../../../port/answer.ts'
import { decodeAll, decodeFirst, Parameters, query } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

export const answerLoaders = {
  answer({ key }, scope) {
    const parameters = new Parameters(scope)
    return {
      names: [`answer:${key}`],
      queries: [query(scope, tables.answer, 'wait', `and t.key = ${parameters.add(key)}`, parameters)],
      read: ([rows]) => decodeFirst<Answer>(tables.answer, rows),
    }
  },

  answersBefore({ before, limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.at <= ${parameters.add(before)}\norder by t.at\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.answer, 'skip', rest, parameters)],
      searched: ['answer'],
      read: ([rows]) => decodeAll<Answer>(tables.answer, rows),
    }
  },
} satisfies Partial<Loaders>
