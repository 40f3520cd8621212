/** What an editor shows: every exported type, method and option has a sentence, and every type it names has a name. */
import { expect, test } from 'vitest'
import { exportsOf, referencesOf, withoutSentence } from '../support/public-types.ts'

const all = exportsOf('dist/index.d.ts')

/** Not exported, each with a reason. */
const unnamed: Record<string, string> = {
  Environment: 'an option for tests; holdfast/testing makes one',
}

test('every export, method and option has a sentence [S6-F5]', () => {
  expect(all.length).toBeGreaterThan(100)
  expect(all.flatMap(withoutSentence)).toEqual([])
})

test('every type that a call takes or returns is exported by name [S6-F5]', () => {
  const known = new Set(all.map(({ file, name }) => `${file} ${name}`))
  const forgotten = all.flatMap((each) =>
    referencesOf(each)
      .filter(({ file, name }) => !known.has(`${file} ${name}`) && !Object.hasOwn(unnamed, name))
      .map(({ file, name }) => `${each.as}: ${name} of ${file}`),
  )

  expect(forgotten).toEqual([])
})
