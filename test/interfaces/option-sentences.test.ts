/** What an option means is told where it is typed: the sentence of its schema is the comment of its type. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openOptions } from '../../src/options.ts'
import { optionInterfaces, optionsOf, sentenceOf } from '../support/option-sentences.ts'

test.each(optionInterfaces)('every option of %s has its sentence [S5-24]', (name, file, operations) => {
  const options = optionsOf(name, file)

  expect(options).not.toEqual([])
  for (const { name: option, sentence } of options) {
    expect({ option, sentence }).toEqual({ option, sentence: expect.any(String) })
    const told = sentenceOf(option, operations)
    if (told !== null) expect(`${option}: ${sentence}`).toContain(`${option}: ${told}`)
  }
})

test('every option of open has its sentence, also in the types of the package [S5-24]', () => {
  const types = readFileSync('dist/options.d.ts', 'utf8')

  for (const [name, { description }] of Object.entries(openOptions.shape)) {
    expect(description).toBeDefined()
    expect(types).toMatch(
      new RegExp(`/\\*\\* ${escaped(description as string)} \\*/\\s+(?:readonly )?${name}\\b`),
    )
  }
})

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
