/** Importing data of other programs: once, in its states, without trusting any lease. */
import {
  type Holdfast,
  type ImportOptions,
  type ImportReport,
  importBeads,
  importEvaluationLocks,
  importExarpGo,
  importZjj,
} from 'holdfast'
import { type Replica, renewalFields, replay } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { aFolder, type Fixture, layFixture } from '../support/fixtures.ts'
import { claimed, present } from '../support/outcomes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

type Import = (hf: Holdfast, path: string, options?: ImportOptions) => Promise<ImportReport>
const sources: readonly (readonly [Fixture, Import, count: number])[] = [
  ['zjj.db', importZjj, 11],
  ['exarp-go.db', importExarpGo, 7],
  ['beads.jsonl', importBeads, 7],
  ['evaluation-locks.json', importEvaluationLocks, 4],
]

forEachEngine((engine) => {
  describe.each(sources)('%s', (fixture, take, count) => {
    test('is imported once: the second time nothing changes, however much has happened since', async () => {
      const { hf, env } = await engine.open(rareProbes)
      const path = layFixture(aFolder(), fixture)

      const first = await take(hf, path)
      await hf.recovery.detectAndRecoverStale()
      await hf.queue('tasks').cleanup({ maxAgeMs: 0 })
      await hf.queue('merge').cleanup({ maxAgeMs: 0 })
      await env.advance(60_000)
      const before = await readFeed(hf)
      const second = await take(hf, path)

      expect(first.imported).toHaveLength(count)
      expect(second).toMatchObject({ imported: [], lapsed: [], flagged: [] })
      expect([...second.known].sort()).toEqual([...first.imported].sort())
      expect(await readFeed(hf)).toEqual(before)
    })

    test('a dry run reports the same and changes nothing', async () => {
      const { hf } = await engine.open()
      const path = layFixture(aFolder(), fixture)
      const before = await readFeed(hf)

      const tried = await take(hf, path, { dryRun: true })
      const after = await readFeed(hf)
      const done = await take(hf, path)

      expect(after).toEqual(before)
      expect(tried).toEqual({ ...done, dryRun: true })
    })

    test('recovery reclaims everything that was held, and no lease outlives the import', async () => {
      const { hf } = await engine.open()
      const { lapsed } = await take(hf, layFixture(aFolder(), fixture))

      const { totals } = await hf.recovery.getRecoveryStats()
      const { locksCleaned, entriesReclaimed } = await hf.recovery.detectAndRecoverStale()

      expect(lapsed.length).toBeGreaterThan(0)
      expect(totals).toMatchObject({ locksCleaned: 0, entriesReclaimed: 0 })
      expect(locksCleaned + entriesReclaimed).toBe(lapsed.length)
      expect((await hf.recovery.detectStaleLocks()).locks).toEqual([])
    })

    test('its events rebuild what arrived [X2]', async () => {
      const { hf, store } = await engine.open()
      await take(hf, layFixture(aFolder(), fixture))

      const replica: Replica = new Map()
      for (const event of await readFeed(hf)) replay(replica, event as Parameters<typeof replay>[1])

      const tables = await store.readTables()
      const ours = [...tables].filter(([name]) => /^(?:item|lock|run):/.test(name))
      expect(ours).toHaveLength(count)
      for (const [name, row] of ours) {
        const told = Object.entries(row).filter(
          ([field, value]) => value !== null && !renewalFields.has(field),
        )
        expect(replica.get(name)).toMatchObject(Object.fromEntries(told))
      }
    })
  })

  test('entries of zjj keep their states, including those of older versions, and their history', async () => {
    const { hf } = await engine.open()

    const report = await importZjj(hf, layFixture(aFolder(), 'zjj.db'))

    const { items } = await hf.queue('merge').list({ limit: 100 })
    const states = Object.fromEntries(items.map(({ key, state }) => [key, state]))
    expect(states).toEqual({
      'old-held': 'claimed',
      'old-done': 'merged',
      'old-failed': 'failed_terminal',
      'testing-now': 'testing',
      nobodys: 'pending',
      waiting: 'pending',
      stacked: 'pending',
      'on-the-gone': 'pending',
      'try-again': 'failed_retryable',
      unwanted: 'cancelled',
    })
    expect(await hf.queue('merge').get('testing-now')).toMatchObject({
      holder: null,
      lease: { agent: 'worker-2', instance: null, status: 'expired' },
      priority: 1,
      failures: 1,
      dedupeKey: 'testing-now:cccc',
      addedAt: 1741000003000,
      startedAt: 1741000063000,
      data: { bead: 'bd-4', headSha: 'cccc111', testedAgainstSha: 'main222', rebaseCount: 2 },
    })
    expect(await hf.queue('merge').get('waiting')).toMatchObject({ submittedBy: 'submitter', lease: null })
    expect(report.lapsed).toEqual(['old-held', 'testing-now', 'the processing lock'])
    expect(report.skipped).toEqual([{ id: 'events of entry 99', why: 'the entry itself is gone' }])
    expect(report.flagged).toEqual([
      { id: 'nobodys', gaps: ['it was held, but names no holder: it arrives released'] },
      { id: 'on-the-gone', gaps: ['it waits for removed-long-ago, which did not come with it'] },
    ])
    const [arrival] = await hf.queue('merge').events('testing-now')
    expect(arrival).toMatchObject({
      kind: 'item.imported',
      detail: {
        from: 'zjj',
        history: [
          { kind: 'claimed', at: 1741000063000, details: { agent: 'worker-2' } },
          { kind: 'transitioned' },
          { kind: 'rebased', details: '{"note":"a \\ that breaks it"}' },
        ],
      },
    })
  })

  test('a merge queue of zjj continues: held entries first by priority, a stack in its order', async () => {
    const { hf } = await engine.open()
    await importZjj(hf, layFixture(aFolder(), 'zjj.db'))
    const q = hf.queue('merge', { workflow: 'merge' })

    const first = await claimed(q.nextWithLock({ agent: 'new' }))
    const waits = await present(q.get('stacked'))

    expect(first.item).toMatchObject({ key: 'testing-now', attempts: 2, crashes: 1 })
    expect(waits.waitingFor).toEqual([(await present(q.get('waiting'))).id])
  })

  test('two files of zjj may go to one queue as long as their workspaces differ', async () => {
    const { hf } = await engine.open()
    const other = layFixture(
      aFolder(),
      'zjj.db',
      "update merge_queue set workspace = 'b-' || workspace, dedupe_key = null;",
    )
    await importZjj(hf, layFixture(aFolder(), 'zjj.db'))

    const second = await importZjj(hf, other)

    expect(second.imported).toHaveLength(10)
    expect(second.known).toEqual(['the processing lock'])
  })

  test('a processing lock held here is not touched', async () => {
    const { hf } = await engine.open()
    await hf.queue('merge', { workflow: 'merge' }).acquireProcessingLock({ agent: 'bob' })

    const { skipped } = await importZjj(hf, layFixture(aFolder(), 'zjj.db'))

    expect(skipped).toContainEqual({
      id: 'the processing lock',
      why: 'someone already holds the processing lock of merge here',
    })
    expect(await hf.queue('merge').getProcessingLock()).toMatchObject({ holder: 'bob' })
  })

  test('tasks of exarp-go keep their texts, and one in progress comes back as Todo', async () => {
    const { hf } = await engine.open()

    const report = await importExarpGo(hf, layFixture(aFolder(), 'exarp-go.db'))

    const held = await present(hf.tasks.getTask('T-1770000000001'))
    expect(held).toMatchObject({
      title: 'Write the parser',
      body: 'It reads everything.\n\nAnd more.',
      status: 'In Progress',
      priority: 3,
      labels: ['core', 'parser'],
      owner: 'carol',
      host: 'box-1',
      assignee: null,
      lease: { agent: 'cursor-box-1-4711', status: 'expired' },
      notes: [{ by: 'exarp-go', text: 'note: the grammar is done', at: Date.UTC(2025, 1, 3) }],
      metadata: { metadata: { effort: 3 } },
      createdAt: Date.UTC(2025, 1, 2, 2, 40),
    })
    expect(await hf.tasks.getTask('T-1770000000002')).toMatchObject({
      status: 'Todo',
      priority: 7,
      waitingFor: [held.id],
      metadata: { exarpGo: { parent_id: 'T-1770000000001' } },
    })
    expect(await hf.tasks.getTask('T-1770000000003')).toMatchObject({
      title: 'Look at the flaky test',
      status: 'Review',
    })
    expect(await hf.tasks.getTask('T-1770000000006')).toMatchObject({
      status: 'Todo',
      quarantine: { reason: 'imported from exarp-go in status Blocked' },
    })
    expect(report.lapsed).toEqual(['T-1770000000001'])
    expect(report.flagged.map(({ id, gaps }) => `${id.at(-1)} ${gaps}`)).toEqual([
      '3 its metadata is in a form that only exarp-go can read',
      '5 it was in progress, but names no holder: it arrives as Todo',
      '7 it was cancelled there: it arrives as Done',
    ])
    await hf.recovery.detectAndRecoverStale()
    expect(await hf.tasks.getTask('T-1770000000001')).toMatchObject({ status: 'Todo', owner: 'carol' })
  })

  test('issues of beads become tasks: blocked by their blockers, urgent first, deferred ones held back', async () => {
    const { hf } = await engine.open()

    const report = await importBeads(hf, layFixture(aFolder(), 'beads.jsonl'))

    const parser = await present(hf.tasks.getTask('bd-a1'))
    expect(parser).toMatchObject({
      status: 'In Progress',
      body: 'It reads everything.\n\n## Design\n\nRecursive descent.',
      priority: 3,
      labels: ['core'],
      owner: 'polecat-1',
      lease: { agent: 'polecat-1', status: 'expired' },
      createdBy: 'carol',
      createdAt: Date.UTC(2025, 3, 19, 0, 19, 12, 117),
      notes: [{ by: 'dave', text: 'the grammar is done' }],
      metadata: { labels: ['odd*label'], beads: { issue_type: 'feature', owner: 'carol@example.com' } },
    })
    expect(await hf.tasks.getTask('bd-a2')).toMatchObject({
      status: 'Todo',
      waitingFor: [parser.id],
      dependsOn: [parser.id],
      quarantine: null,
    })
    expect(await hf.tasks.getTask('bd-a4')).toMatchObject({ priority: 1 })
    expect(await hf.tasks.getTask('bd-a5')).toMatchObject({
      quarantine: { reason: 'imported from beads in status deferred' },
    })
    expect(await hf.tasks.getTask('bd-a6')).toMatchObject({
      status: 'Done',
      result: { closeReason: 'done in bd-a4' },
    })
    expect(report).toMatchObject({
      lapsed: ['bd-a1'],
      flagged: [
        { id: 'bd-a1', gaps: ['some of its labels are not valid names here: see its metadata'] },
        { id: 'bd-a7', gaps: ['it was in progress, but names no holder: it arrives as Todo'] },
        { id: 'bd-a2', gaps: ['it waits for bd-gone, which did not come with it'] },
      ],
      skipped: [
        { id: 'bd-a3', why: 'deleted there' },
        { id: 'build-command', why: 'a memory' },
      ],
    })
  })

  test('hundreds of issues in reverse order are imported in pieces, each after what it waits for', async () => {
    const { hf } = await engine.open()
    const lines = Array.from({ length: 250 }, (_, index) => ({
      id: `bd-${index}`,
      title: 't',
      status: 'open',
      dependencies: index === 249 ? [] : [{ depends_on_id: `bd-${index + 1}`, type: 'blocks' }],
    }))
    const seen: string[] = []

    const report = await importBeads(
      hf,
      { text: lines.map((line) => JSON.stringify(line)).join('\n') },
      { onProgress: ({ phase, done, total }) => seen.push(`${phase} ${done}/${total}`) },
    )

    expect(report.imported[0]).toBe('bd-249')
    expect(seen.at(-1)).toBe('importing 250/250')
    const next = await hf.tasks.claimNext({ agent: 'ada' })
    expect(next).toMatchObject({ outcome: 'claimed', task: { key: 'bd-249' } })
    expect((await present(hf.tasks.getTask('bd-0'))).waitingFor).toHaveLength(1)
  })

  test.each([
    ['in the same piece', 0],
    ['in a later piece', 150],
  ])(
    'an item that waits for a row the store refuses does not run too early, %s [S5c-32]',
    async (_, between) => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('another of that key', { key: 'bd-taken' })
      const issue = (id: string, on?: string) => ({
        id,
        title: id,
        priority: 1,
        created_at: '2025-04-19T00:19:12Z',
        dependencies: on === undefined ? [] : [{ depends_on_id: on, type: 'blocks' }],
      })
      const fillers = Array.from({ length: between }, (_each, index) => ({
        ...issue(`bd-${index}`),
        priority: 4,
      }))
      const lines = [issue('bd-taken'), ...fillers, issue('bd-next', 'bd-taken'), issue('bd-last', 'bd-next')]
      const text = lines.map((line) => JSON.stringify(line)).join('\n')

      const looked = await importBeads(hf, { text }, { skipBad: true, dryRun: true })
      const report = await importBeads(hf, { text }, { skipBad: true })
      const first = await hf.tasks.claimNext()
      await hf.tasks.completeTask('bd-taken')
      const next = await hf.tasks.claimNext()

      expect(report).toEqual({ ...looked, dryRun: false })
      expect(report.bad).toMatchObject([{ row: 'line 1', why: expect.stringContaining('bd-taken') }])
      expect(report.flagged).toEqual([
        { id: 'bd-next', gaps: ['it waits for bd-taken, which could not be imported: it is quarantined'] },
      ])
      expect(await hf.tasks.getTask('bd-next')).toMatchObject({
        quarantine: { reason: 'imported from beads: it waits for bd-taken, which could not be imported' },
      })
      expect(await hf.tasks.getTask('bd-last')).toMatchObject({
        quarantine: null,
        waitingFor: [expect.any(String)],
      })
      expect(first).toMatchObject({ task: { title: 'another of that key' } })
      expect(next).toMatchObject(
        between === 0 ? { outcome: 'empty' } : { task: { key: expect.stringMatching(/^bd-\d/) } },
      )
    },
  )

  test('a change stacked on one that the store refuses is not merged until somebody has looked [S5c-32]', async () => {
    const { hf } = await engine.open()
    await hf.queue('merge', { workflow: 'merge' }).submit('waiting', { headSha: 'abcd' })

    const report = await importZjj(hf, layFixture(aFolder(), 'zjj.db'), { skipBad: true })

    expect(report.imported).not.toContain('waiting')
    expect(report.flagged).toContainEqual({
      id: 'stacked',
      gaps: ['it waits for waiting, which could not be imported: it is quarantined'],
    })
    expect(await hf.queue('merge').get('stacked')).toMatchObject({ phase: 'waiting', parent: null })
  })

  test('an interrupted import resumes where it stopped', async () => {
    const { hf } = await engine.open()
    const text = Array.from({ length: 150 }, (_, index) =>
      JSON.stringify({ id: `bd-${index}`, title: 't' }),
    ).join('\n')
    const onProgress: ImportOptions['onProgress'] = ({ phase, done }) => {
      if (phase === 'importing' && done === 100) throw new Error('the power failed')
    }

    await expect(importBeads(hf, { text }, { onProgress })).rejects.toThrow('the power failed')
    const { imported, known } = await importBeads(hf, { text })

    expect([imported.length, known.length]).toEqual([50, 100])
    expect((await hf.tasks.listTasks({ limit: 500 })).tasks).toHaveLength(150)
  })

  test('a running evaluation is paused when its lock, imported as lapsed, is freed', async () => {
    const { hf } = await engine.open()

    const report = await importEvaluationLocks(hf, layFixture(aFolder(), 'evaluation-locks.json'))
    const lock = await hf.locks.getCurrentLockInfo('global')
    const before = await hf.runs.get('spring-2025')
    await hf.recovery.detectAndRecoverStale()

    expect(report).toMatchObject({
      imported: ['lock global', 'run spring-2025', 'run autumn-2024', 'run winter-2025'],
      lapsed: ['lock global'],
      skipped: [{ id: 'lock old', why: 'nobody held it' }],
    })
    expect(lock).toMatchObject({
      isLocked: false,
      lockedByUser: 'admin-7',
      lockReason: 'Bulk evaluation in progress',
    })
    expect(before).toMatchObject({ status: 'running', total: 40, done: 12 })
    expect(await hf.runs.get('spring-2025')).toMatchObject({
      status: 'paused',
      done: 12,
      pauseReason: expect.stringContaining('lapsed'),
    })
    expect(await hf.runs.get('autumn-2024')).toMatchObject({
      status: 'completed',
      done: 9,
      token: 0,
    })
    expect(await hf.runs.get('winter-2025')).toMatchObject({
      status: 'paused',
      pauseReason: 'Server restart - evaluation paused',
      startedAt: 1735725600000,
    })
    const resumed = await hf.locks.acquireLock('global', { run: 'spring-2025', agent: 'ada' })
    expect(resumed.outcome).toBe('acquired')
  })

  test('concurrent imports of one file import each thing once', async () => {
    const { hf, store } = await engine.open()
    const path = layFixture(aFolder(), 'exarp-go.db')
    const handles = [hf, await store.open(), await store.open()]

    const reports = await Promise.all(handles.map((each) => importExarpGo(each, path)))

    expect(reports.reduce((sum, { imported }) => sum + imported.length, 0)).toBe(7)
    expect((await hf.tasks.listTasks({ limit: 100 })).tasks).toHaveLength(7)
  })
})
