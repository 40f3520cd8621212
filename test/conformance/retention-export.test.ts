/** Events leave a store only after they were written elsewhere, when that is asked. */
import { execFileSync } from 'node:child_process'
import {
  chownSync,
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

forEachEngine((engine) => {
  test('events are exported in full, each once, before they are removed [X2]', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const eventsExport = join(folder, 'events.jsonl')
    const { hf, env } = await engine.open({
      retention: { eventsMs: 60_000, everyMs: 10_000, eventsExport },
      ...rareProbes,
    })
    await hf.queue('jobs').addMany(Array.from({ length: 250 }, (_, number) => ({ payload: number })))
    const before = await readFeed(hf)

    await env.advance(190_000)

    const exported = readFileSync(eventsExport, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    const kept = await readFeed(hf)
    const numbers = [...exported, ...kept].map(({ seq }) => seq)
    expect(exported.length).toBeGreaterThan(200)
    expect([...exported, ...kept].slice(0, before.length)).toEqual(before)
    expect(numbers).toEqual([...new Set(numbers)].toSorted((left, right) => left - right))
  })

  /** What somebody else may have put in its place. */
  const obstacles: Readonly<Record<string, readonly [put: (path: string) => void, told: string]>> = {
    'a link': [(path) => symlinkSync(join(path, '..', 'victim'), path), 'symbolic link'],
    'a pipe that nobody reads': [(path) => execFileSync('mkfifo', [path]), 'ENXIO'],
    'a pipe that somebody reads': [
      (path) => {
        execFileSync('mkfifo', [path])
        const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
        onTestFinished(() => closeSync(reader))
      },
      'not a plain file',
    ],
    'a file of another user': [
      (path) => {
        writeFileSync(path, '')
        chownSync(path, 65_534, 65_534)
      },
      'belongs to another user',
    ],
  }
  const isRoot = process.getuid?.() === 0
  if (!isRoot) console.log('an export to a file of another user is not tried: only root can give one away')
  const put = Object.entries(obstacles).filter(([name]) => isRoot || name !== 'a file of another user')

  test.each(put)(
    'nothing is exported to %s, and nothing is removed until that is fixed [S5d-6]',
    async (_, [prepare, told]) => {
      const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
      const eventsExport = join(folder, 'events.jsonl')
      writeFileSync(join(folder, 'victim'), 'precious')
      prepare(eventsExport)
      const lines: string[] = []
      const note = (facts: unknown) => void lines.push(JSON.stringify(facts))
      const { hf, env } = await engine.open({
        retention: { eventsMs: 60_000, everyMs: 10_000, eventsExport },
        ...rareProbes,
        logger: { warn: note, error: note },
      })
      await hf.queue('jobs').add('work')
      const before = await readFeed(hf)

      await env.advance(190_000)

      expect(readFileSync(join(folder, 'victim'), 'utf8')).toBe('precious')
      expect(statSync(eventsExport).size).toBe(told === 'symbolic link' ? 'precious'.length : 0)
      expect((await readFeed(hf)).slice(0, before.length)).toEqual(before)
      expect(lines.join('\n')).toContain(told)
    },
  )
})
