/**
 * Every verb, as people and as machines see it: scripts are run as typed, once for text and once for JSON, and
 * compared with what lies in golden/. After a wanted change: npx vitest run test/interfaces/cli-transcripts.test.ts -u
 */
import { describe, expect, test } from 'vitest'
import { listCommands } from '../../dist/cli/reference.js'
import { aShell, type Shell, Transcript } from '../support/cli.ts'
import { scripts, splitWords } from '../support/cli-scripts.ts'
import { fixtures, layFixture } from '../support/fixtures.ts'

const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/

describe.each(Object.entries(scripts))('the script of %s', (name, lines) => {
  test.each(['text', 'json'])('gives the %s it always gave [Q27]', async (form) => {
    const shell = aShell()
    if (name === 'import') for (const fixture of fixtures) layFixture(shell.folder, fixture)
    const transcript = await play(shell, lines, form === 'json' ? ['--json'] : [])

    await expect(transcript).toMatchFileSnapshot(`golden/${name}.${form}.txt`)
  })
})

test('every verb is in a script', async () => {
  const typed = Object.values(scripts).flat()
  // Streams never end by themselves, the demo takes too long, and what `run` runs has the real stdout; they have tests
  // of their own.
  const apart = ['state watch', 'events follow', 'watch', 'demo', 'run']

  const missing = (await listCommands())
    .map(({ name }) => name)
    .filter(
      (name) => !apart.includes(name) && !typed.some((line) => line === name || line.startsWith(`${name} `)),
    )

  expect(missing).toEqual([])
})

async function play(shell: Shell, lines: readonly string[], extra: readonly string[]): Promise<string> {
  const transcript = new Transcript(shell.folder)
  let id = ''
  for (const line of lines) {
    const [typed = '', stdin = ''] = line.split(' <<< ')
    const args = splitWords(typed).map((word) => word.replace('$id', id).replace('$pid', String(process.pid)))
    const answer = await shell.runWith({ stdin }, ...args, ...extra)
    id = uuid.exec(answer.stdout)?.[0] ?? id
    transcript.add([...args, ...extra], answer)
  }
  return transcript.text
}
