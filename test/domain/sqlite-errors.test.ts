/** What SQLite says is known by its code, whichever way a statement was run. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { classify, isBusy, passing } from '../../src/engines/sqlite/classify.ts'
import { Connection } from '../../src/engines/sqlite/connection.ts'

function aConnection(): Connection {
  const connection = new Connection(':memory:')
  onTestFinished(() => connection.close())
  return connection
}

function thrownBy(act: () => unknown): unknown {
  try {
    act()
  } catch (error) {
    return error
  }
  return null
}

describe('an error in reading many rows', () => {
  test.each([
    ['the first row', "values ('broken')"],
    ['a later row', "values ('{}'), ('{}'), ('broken')"],
  ])('carries the code of SQLite when it is met in %s [S5c-22] [S5-27]', (_, rows) => {
    const connection = aConnection()

    const error = thrownBy(() => connection.all(`select json_extract(column1, ?) from (${rows})`, '$.a'))

    expect(error).toMatchObject({ errcode: 1, message: 'malformed JSON' })
    expect(classify(error, 'store.db')).toMatchObject({ code: 'INTERNAL', facts: { sqliteCode: 1 } })
  })

  test('carries it even if parameters are numbered and the query has its own limit [S5c-22]', () => {
    const connection = aConnection()
    const rows = "values ('{}', 1), ('broken', 2)"
    const query = `select json_extract(column1, ?2) from (${rows}) where column2 <> ?1 order by column2 limit 2`

    expect(thrownBy(() => connection.all(query, '7', '$.a'))).toMatchObject({ errcode: 1 })
  })

  test('that does not recur counts as caused by another process, which passes [S5c-22]', () => {
    const error = passing(new Error('database is locked'))

    expect(isBusy(error)).toBe(true)
    expect(classify(error, 'store.db')).toMatchObject({ code: 'BUSY', retryable: true })
  })
})

test.each([
  ['the log is recovered by another', 5 | (1 << 8)],
  ['the snapshot is too old', 5 | (2 << 8)],
  ['locks could not be had in many tries', 15],
])('%s: busy, also by its extended code [S5-27]', (_, errcode) => {
  const error = Object.assign(new Error('as SQLite says it'), { errcode })

  expect(isBusy(error)).toBe(true)
  expect(classify(error, 'store.db')).toMatchObject({ code: 'BUSY' })
})
