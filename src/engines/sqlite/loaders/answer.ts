/** Answers stored for idempotency keys. */
import type { Answer } from '../../../port/answer.ts'
import { select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

export const answerLoaders = {
  answer(source, { key }) {
    const row = source.connection.get(
      `${select(tables.answer)}\nwhere namespace = ? and key = ?`,
      source.namespace,
      key,
    )
    return row ? decode<Answer>(tables.answer, row) : null
  },

  answersBefore: (source, { before, limit }) =>
    source.connection
      .all(
        `${select(tables.answer)}\nwhere namespace = ? and at <= ?\norder by at\nlimit ${limit}`,
        source.namespace,
        BigInt(before),
      )
      .map((row) => decode<Answer>(tables.answer, row)),
} satisfies Partial<Loaders>
