import { expect, onTestFinished, test } from 'vitest'
import { driver } from '../../src/engines/sqlite/driver.ts'

function opened() {
  const database = driver().open(':memory:', { maxLength: 1000 })
  onTestFinished(() => database.close())
  return database
}

test('every SQLite file is opened with an untrusted schema and checked pages [S5d-4]', () => {
  const database = opened()

  expect(database.prepare('pragma trusted_schema').get()).toEqual({ trusted_schema: 0 })
  expect(database.prepare('pragma cell_size_check').get()).toEqual({ cell_size_check: 1 })
})

test('nothing in a schema calls a function with side effects [S5d-4]', () => {
  const database = opened()
  const called: unknown[] = []
  database.function('effect', { directOnly: false }, (value) => {
    called.push(value)
    return null
  })
  database.exec("create view trap as select effect('from a view')")

  expect(() => database.prepare('select * from trap').all()).toThrow('unsafe use of effect()')
  database.prepare("select effect('from a statement')").all()
  expect(called).toEqual(['from a statement'])
})

test('values and statements have a maximum length [S5d-4]', () => {
  const database = opened()

  expect(database.prepare('select hex(zeroblob(400)) as text').get()).toEqual({ text: '0'.repeat(800) })
  expect(() => database.prepare('select hex(zeroblob(600)) as text').get()).toThrow('too big')
  expect(() => database.exec(`select 1 --${' '.repeat(1_000_000)}`)).toThrow('too big')
})
