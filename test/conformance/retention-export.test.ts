/** Events leave a store only after they were written elsewhere, when that is asked. */
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('events are exported in full, each once, before they are removed [X2]', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const eventsExport = join(folder, 'events.jsonl')
    const { hf, env } = await engine.open({ retention: { eventsMs: 60_000, everyMs: 10_000, eventsExport } })
    for (let number = 0; number < 250; number++) await hf.queue('jobs').add(number)
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

  test('nothing is exported through a link, and nothing is removed meanwhile [S5d-6]', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const eventsExport = join(folder, 'events.jsonl')
    writeFileSync(join(folder, 'victim'), 'precious')
    symlinkSync(join(folder, 'victim'), eventsExport)
    const lines: string[] = []
    const note = (facts: unknown) => void lines.push(JSON.stringify(facts))
    const { hf, env } = await engine.open({
      retention: { eventsMs: 60_000, everyMs: 10_000, eventsExport },
      logger: { warn: note, error: note },
    })
    await hf.queue('jobs').add('work')
    const before = await readFeed(hf)

    await env.advance(190_000)

    expect(readFileSync(join(folder, 'victim'), 'utf8')).toBe('precious')
    expect((await readFeed(hf)).slice(0, before.length)).toEqual(before)
    expect(lines.join('\n')).toContain('symbolic link')
  })
})
