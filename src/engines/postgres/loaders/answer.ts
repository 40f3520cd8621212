/** Answers kept for idempotency keys. */
import type { Answer } from '../../engine.ts'
import { decodeAll, decodeFirst, Parameters, query } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

export const answerLoaders = {
  answer({ key }, place) {
    const parameters = new Parameters(place)
    return {
      names: [`answer:${key}`],
      queries: [query(place, tables.answer, 'wait', `and t.key = ${parameters.add(key)}`, parameters)],
      read: ([rows]) => decodeFirst<Answer>(tables.answer, rows),
    }
  },

  answersBefore({ before, limit }, place) {
    const parameters = new Parameters(place)
    const rest = `and t.at <= ${parameters.add(before)}\norder by t.at\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(place, tables.answer, 'skip', rest, parameters)],
      searched: ['answer'],
      read: ([rows]) => decodeAll<Answer>(tables.answer, rows),
    }
  },
} satisfies Partial<Loaders>
