/** What an option means is said once, in its schema, and an editor shows it wherever the option can be given. */
import { expect, test } from 'vitest'
import { shownOptions } from '../support/editor.ts'

const options = shownOptions('dist/index.d.ts')

test('an editor shows a sentence for every option of every call [S5-24] [S6-F5]', () => {
  expect(options.length).toBeGreaterThan(500)
  expect(options.filter(({ sentence }) => sentence === '').map(({ option }) => option)).toEqual([])
})

test('the sentence of an option comes from its schema [S5-24]', () => {
  const shown = new Map(options.map(({ option, sentence }) => [option, sentence]))

  expect(shown.get('AddOptions priority')).toBe('0 (first) to 10 (last); default 5.')
  expect(shown.get('Queue.renew leaseMs')).toBe('Length of the lease in ms.')
  expect(shown.get('OpenOptions namespace')).toBe("Namespaces cannot see each other's data.")
})
