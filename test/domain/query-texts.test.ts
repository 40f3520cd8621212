import { expect, test } from 'vitest'
import { QueryTexts } from '../../src/engines/query-texts.ts'

test('a text is built once', () => {
  const texts = new QueryTexts()
  let built = 0
  const build = () => `select ${++built}`

  expect([texts.of('a', build), texts.of('a', build), texts.of('b', build)]).toEqual([
    'select 1',
    'select 1',
    'select 2',
  ])
})

test('texts do not pile up, however many limits callers use', () => {
  const texts = new QueryTexts()

  for (let limit = 0; limit < 10_000; limit++) texts.of(`limit ${limit}`, () => `select 1 limit ${limit}`)

  expect(texts.size).toBeLessThanOrEqual(1000)
})
