/** A store grows up: everything goes over, nothing is lost, and whatever dies on the way, the same command goes on. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type CopyProgress,
  type CopyReport,
  type CopyRequest,
  copyStore,
  type Holdfast,
  type OpenOptions,
  open,
} from 'holdfast'
import { systemEnvironment } from 'holdfast/testing'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { describeStore, type Grants, populate } from '../support/populated.ts'
import { openRaw } from '../support/sqlite-file.ts'
import { ownServer, schemaOf } from './server-store.ts'
import { onServer, shifted, type Table, tablesOf, tablesOfFile } from './store-tables.ts'
import { newStore, openActor, openHere, program, query, run, runCli, until } from './support.ts'

const hour = 3_600_000
/** The laptop slept: its lease clock is so much behind the wall clock. */
const sleptMs = 8 * hour

const server = ownServer()
const newSchema = () => server.newStore()
/** A store with something of everything in it, and the same after a copy of it was killed in the middle. */
let folder = ''
let template = ''
let interrupted = ''
let half = ''
let grants: Grants

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-copy-'))
  const place = (name: string) => join(folder, `${name}.db`)
  template = place('template')
  grants = await makeTemplate(template)
  interrupted = place('interrupted')
  half = place('half')
  copyFileSync(template, interrupted)
  await killedCopy({ from: interrupted, to: half, point: 'copy.carried', times: 12 })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('from SQLite to PostgreSQL', () => {
  let from = ''
  let to = ''
  let report: CopyReport
  /** Each as it was before, and right after the copy. */
  let told: Record<string, unknown>[]
  let toldBeside: unknown[][]
  let left: Record<string, number>[]
  let tables: Record<string, Table>

  beforeAll(async () => {
    from = join(folder, 'from.db')
    copyFileSync(template, from)
    to = newSchema()
    const [before, beside, leftBefore] = [
      await described(from),
      await describedBeside(from),
      await timesLeft(from),
    ]
    report = await copy(from, to)
    tables = await tablesOf(to)
    left = [leftBefore, await timesLeft(to)]
    told = [before, await described(to)]
    toldBeside = [beside, await describedBeside(to)]
  })

  test('everything is there afterwards, in the API and in the tables', () => {
    expect(report).toMatchObject({ outcome: 'copied', began: 'fresh', source: 'shut' })
    // A table that nothing was put into would be copied by nobody's word.
    expect(report.tables.filter(({ rows }) => rows === 0)).toEqual([])
    expect(report.rows).toBe(report.tables.reduce((sum, { rows }) => sum + rows, 0))
    expect(Math.abs(report.shiftMs - sleptMs)).toBeLessThan(2_000)
    expect(tables).toEqual(shifted(tablesOfFile(from), report.shiftMs))
    expect(told[1]).toEqual(told[0])
    expect(toldBeside[1]).toEqual(toldBeside[0])
  })

  test('a lease has as much time left as it had', () => {
    const [before = {}, after = {}] = left

    expect(Object.keys(after)).toEqual(Object.keys(before))
    expect(Object.keys(after).length).toBeGreaterThan(5)
    // What the copy itself took has passed, and nothing more.
    for (const [lease, leftMs] of Object.entries(after)) {
      expect(before[lease] as number, lease).toBeGreaterThanOrEqual(leftMs - 100)
      expect(before[lease] as number, lease).toBeLessThan(leftMs + 30_000)
    }
  })

  test('events go on after those that were copied', async () => {
    const newest = query(from, 'select max(seq) as seq from event')[0] as { seq: number }
    const hf = await openHere(to, { background: false, recovery: { onOpen: false } })

    await hf.state('after').set('the copy')

    const { events } = (await hf.execute('events.list', { since: newest.seq })) as {
      events: { kind: string; seq: number }[]
    }
    expect(events.map(({ kind }) => kind)).toEqual(['state.set'])
  })

  test('holders keep what they hold, former holders are refused, and tokens only grow', async () => {
    const highest = query(from, 'select max(token) as token from event')[0] as { token: number }
    const hf = await openHere(to, { background: false })

    const { item, lock } = grants
    const done = await hf.queue('jobs').complete(item.id, { agent: 'holder', token: item.token })
    await hf.locks.forceRelease(lock.name, { reason: 'its turn is over' })
    const late = await hf.locks.releaseLock(lock.name, { agent: 'holder', token: lock.token })
    const renewal = hf.locks.renewLock(lock.name, { agent: 'holder', token: lock.token })
    await expect(renewal).rejects.toMatchObject({ code: 'LEASE_LOST' })
    const tokens = []
    for (const name of [lock.name, 'brief']) {
      const granted = await hf.locks.acquireLock(name, { agent: 'next' })
      tokens.push(granted.outcome === 'acquired' ? granted.lock.lease.token : 0)
    }

    expect(done.state).toBe('done')
    expect(late).toBe(false)
    expect(Math.min(...tokens)).toBeGreaterThan(highest.token)
  })

  test('an answer given under an idempotency key is given again', async () => {
    const hf = await openHere(to, { agent: 'populator', background: false })

    const again = await hf.execute(
      'queue.add',
      { queue: 'jobs', payload: 'keyed' },
      { idempotencyKey: 'key-1' },
    )

    const { item } = again as { item: { id: string } }
    const found = await hf.queue('jobs').get(item.id)
    expect(found).toMatchObject({ payload: 'keyed', version: 1 })
  })

  test('copying back to SQLite gives the same store again', async () => {
    const back = newStore()
    const before = await described(to)

    const returned = await copy(to, back)

    expect(returned.outcome).toBe('copied')
    expect(tablesOfFile(back)).toEqual(shifted(await tablesOf(to), returned.shiftMs))
    expect(await described(back)).toEqual(before)
    const hf = await openHere(back, { background: false })
    await hf.state('after').set('both copies')
    expect(query(back, 'pragma foreign_key_check')).toEqual([])
    await expect(openQuietly(to)).rejects.toMatchObject({ code: 'STORE_UNFIT', facts: { movedTo: back } })
  })
})

describe('interrupted', () => {
  test('a copy killed midway cannot be opened by anyone, and resumes where it stopped', async () => {
    const from = populatedStore()
    const before = await described(from)
    const to = newSchema()
    const other = newStore()
    await makeStore(other)

    const ending = await killedCopy({ from, to, point: 'copy.carried', times: 12 })
    const carried = await tablesOf(to)
    const refusal = await openQuietly(to).catch((error) => error)
    const refusalOfOther = await copy(other, to).catch((error) => error)
    const report = await copy(from, to)

    expect(ending).toBe('SIGKILL')
    expect(carried.item?.length).toBeGreaterThan(0)
    expect(carried.event).toEqual([])
    expect(refusal).toMatchObject({ code: 'STORE_UNFIT', facts: { from } })
    expect(refusal.message).not.toContain('secret')
    expect(refusalOfOther).toMatchObject({ code: 'STORE_UNFIT', facts: { from } })
    expect(report).toMatchObject({ outcome: 'copied', began: 'resumed' })
    expect(await tablesOf(to)).toEqual(shifted(tablesOfFile(from), report.shiftMs))
    expect(await described(to)).toEqual(before)
  })

  test('a copy into a file resumes in the same way', async () => {
    const { from, to } = halfCopy()

    await expect(openQuietly(to)).rejects.toMatchObject({ code: 'STORE_UNFIT', facts: { from: interrupted } })
    const report = await copy(from, to)

    expect(report).toMatchObject({ outcome: 'copied', began: 'resumed' })
    expect(tablesOfFile(to)).toEqual(shifted(tablesOfFile(from), report.shiftMs))
  })

  test('a source that has changed since is copied from the beginning', async () => {
    const { from, to } = halfCopy()
    const hf = await openQuietly(from)
    await hf.queue('jobs').add('added after the crash')
    await hf.close()
    const before = await described(from)

    const report = await copy(from, to)

    expect(report).toMatchObject({ outcome: 'copied', began: 'restarted' })
    expect(await described(to)).toEqual(before)
  })

  test('if killed between closing the source and opening the target, both are refused until it is run again', async () => {
    const from = populatedStore()
    const to = newSchema()

    await killedCopy({ from, to, point: 'copy.shut', times: 1 })

    await expect(openQuietly(from)).rejects.toMatchObject({ code: 'STORE_UNFIT' })
    await expect(openQuietly(to)).rejects.toMatchObject({ code: 'STORE_UNFIT' })
    // Until then the machine may have slept for a night.
    raw(from, `update lease_clock set offset_ms = offset_ms - ${sleptMs}`)
    expect(await copy(from, to)).toMatchObject({ outcome: 'copied', began: 'resumed' })
    expect(await copy(from, to)).toMatchObject({ outcome: 'already' })
    const hf = await openHere(to, { background: false })
    expect((await hf.queue('jobs').list()).items.length).toBeGreaterThan(5)
  })

  test('a change without an event is found by the comparison, and copied again', async () => {
    const { from, to } = halfCopy()
    raw(from, "update item set expires_at = expires_at + 1 where phase = 'held'")

    const report = await copy(from, to)

    expect(report).toMatchObject({ outcome: 'copied', began: 'restarted' })
    expect(tablesOfFile(to)).toEqual(shifted(tablesOfFile(from), report.shiftMs))
  })

  test('a target that somebody tampers with is detected, and the source stays in use', async () => {
    const from = populatedStore()
    const to = newStore()
    let isDone = false
    const onProgress = ({ table }: CopyProgress) => {
      if (isDone || table !== 'event') return
      isDone = true
      raw(to, "update item set priority = priority + 1 where key = 'first' and namespace = 'other'")
    }

    const refusal = await copyStore({ from, to, onProgress }).catch((error) => error)

    expect(refusal).toMatchObject({
      code: 'STORE_UNFIT',
      facts: { tables: [{ table: 'item', first: ['other', expect.any(String)] }] },
    })
    const hf = await openHere(from, { background: false })
    await hf.state('still').set('usable')
    await expect(openQuietly(to)).rejects.toMatchObject({ code: 'STORE_UNFIT' })
    expect(await copy(from, to)).toMatchObject({ outcome: 'copied', began: 'restarted' })
  })
})

describe('two copies at once', () => {
  test.each([
    ['a file', () => newStore()],
    ['a schema', () => newSchema()],
  ])('of %s: one of them moves it, and the other says where it went [S5c-29]', async (_, place) => {
    const [from, first, second] = [place(), newStore(), newStore()]
    const hf = await openQuietly(from)
    await hf.queue('jobs').add('work')
    await hf.close()

    const refusal = await copyWhile({ from, to: second }, 'copy.prepared', { from, to: first })

    expect(refusal).toMatchObject({ code: 'STORE_UNFIT', facts: { movedTo: first } })
    expect(existsSync(second)).toBe(false)
    const copied = await openHere(first, { background: false })
    expect((await copied.queue('jobs').list()).items).toHaveLength(1)
  })

  test('to one target, from a store and a copy of its file: one of them opens it, and the other stops [S5c-29]', async () => {
    const { from, to } = halfCopy()
    const twin = newStore()
    copyFiles(from, twin)

    const refusal = await copyWhile({ from, to }, 'copy.filled', { from: twin, to })

    expect(refusal).toMatchObject({ code: 'BUSY', facts: { location: to } })
    expect(tablesOfFile(to).item?.length).toBeGreaterThan(5)
    for (const usable of [from, to]) await makeStore(usable)
  })
})

describe('refused', () => {
  test('a dry run says what would be copied and changes nothing', async () => {
    const from = populatedStore()
    const [file, to] = [digestOf(from), newSchema()]
    const place = newStore()

    const planned = await copyStore({ from, to, dryRun: true })
    const beside = await copyStore({ from, to: place, dryRun: true })

    expect(planned).toMatchObject({ outcome: 'planned', began: 'fresh', running: [] })
    expect(planned.rows).toBe(beside.rows)
    expect(planned.rows).toBeGreaterThan(500)
    expect(digestOf(from)).toBe(file)
    expect(existsSync(place)).toBe(false)
    expect(await hasSchema(schemaOf(to))).toBe(false)
  })

  test('a target that holds anything else is left as it is', async () => {
    const from = newStore()
    await makeStore(from)
    const to = newSchema()
    const hf = await openQuietly(to)
    await hf.state('mine').set(1)
    await hf.close()
    const before = await tablesOf(to)

    const refusals = [
      await copy(from, to).catch((error) => error),
      await copyStore({ from, to, dryRun: true }).catch((error) => error),
    ]

    for (const refusal of refusals)
      expect(refusal).toMatchObject({ code: 'STORE_UNFIT', facts: { rows: { state: 1 } } })
    expect(await tablesOf(to)).toEqual(before)
    await makeStore(to)
  })

  test.each([
    ['a file', () => newStore()],
    ['a schema', () => newSchema()],
  ])('%s that has moved is no target, however empty: both would be shut', async (_, place) => {
    const [first, second] = [place(), newStore()]
    await (await openQuietly(first)).close()
    await copy(first, second)

    const refusals = [
      await copy(second, first).catch((error) => error),
      await copyStore({ from: second, to: first, dryRun: true }).catch((error) => error),
    ]

    for (const refusal of refusals)
      expect(refusal).toMatchObject({ code: 'STORE_UNFIT', facts: { movedTo: second } })
    await makeStore(second)
  })

  test('a source that a live process uses is not copied, and the process is named', async () => {
    const from = newStore()
    const worker = await openActor(from, { agent: 'busy' })
    const to = newStore()

    const refusal = await copy(from, to).catch((error) => error)
    const planned = await copyStore({ from, to, dryRun: true })
    worker.kill()
    await worker.ended()
    const report = await copy(from, to)

    expect(refusal).toMatchObject({
      code: 'HELD',
      facts: { running: [{ agent: 'busy', pid: worker.pid, namespace: 'default' }] },
    })
    expect(planned.running).toMatchObject([{ agent: 'busy' }])
    expect(report.outcome).toBe('copied')
    // Its death was proven where it could be: nothing of it runs on in the copy.
    expect(query(to, 'select agent from instance where ended_at is null')).toEqual([])
  })

  test('a process of another machine counts as gone once it has been silent for two minutes', async () => {
    const from = newStore()
    const hf = await open(from, { logger: false, agent: 'far-away' })
    await hf.close()
    const elsewhere = (beatAt: number) =>
      raw(from, `update instance set ended_at = null, host_name = 'elsewhere', beat_at = ${beatAt}`)
    const to = newStore()

    elsewhere(Date.now() - 60_000)
    const refusal = await copy(from, to).catch((error) => error)
    elsewhere(Date.now() - 180_000)
    const report = await copy(from, to)

    expect(refusal).toMatchObject({ code: 'HELD', facts: { running: [{ agent: 'far-away' }] } })
    expect(report.outcome).toBe('copied')
  })

  test('a store that is missing, is also the target, or is private cannot be the source', async () => {
    const from = newStore()
    await expect(copy(from, newStore())).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(existsSync(from)).toBe(false)
    await makeStore(from)
    await expect(copy(from, from)).rejects.toMatchObject({ code: 'INVALID' })
    await expect(copy('sqlite::memory:', from)).rejects.toMatchObject({ code: 'INVALID' })
    await expect(copy(newSchema(), newStore())).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })
})

describe('the source afterwards', () => {
  test('cannot be opened; the error names the new location without its password', async () => {
    const from = newStore()
    await makeStore(from)
    const to = newSchema()
    await copy(from, to)

    const refusal = await openQuietly(from).catch((error) => error)

    expect(refusal).toMatchObject({ code: 'STORE_UNFIT', facts: { movedTo: withoutPassword(to) } })
    expect(refusal.message).toContain(withoutPassword(to))
    expect(refusal.message).not.toContain('secret')
  })

  test.each([
    ['a file', () => newStore()],
    ['a schema', () => newSchema()],
  ])(
    '%s lets nobody write while it is copied or afterwards, also who had it open and only renews',
    async (_, place) => {
      const from = place()
      const hf = await openHere(from, { background: false })
      await hf.queue('q').add(1)
      const claim = await hf.queue('q').next({ renew: false })
      const asked: Promise<unknown>[] = []
      const onProgress = () => {
        if (asked.length === 0) asked.push(refusalOf(hf.state('meanwhile').set(1)))
      }

      const report = await copyStore({ from, to: newStore(), onProgress })

      const moved = { code: 'STORE_UNFIT', facts: { movedTo: expect.stringContaining('store.db') } }
      expect(report.outcome).toBe('copied')
      expect(await Promise.all(asked)).toMatchObject([moved])
      expect(await hf.state('meanwhile').get()).toBe(null)
      const { id, token } = claim.outcome === 'claimed' ? claim.item : { id: '', token: 0 }
      for (const late of [() => hf.queue('q').renew(id, { token }), () => hf.queue('q').add(2)])
        expect(await refusalOf(late())).toMatchObject(moved)
    },
  )

  test.each([
    ['a file', () => newStore()],
    ['a schema', () => newSchema()],
  ])(
    '%s can be read while it is copied by who has it open; who opens it is told that it is busy',
    async (_, place) => {
      const from = place()
      const hf = await openHere(from, { background: false })
      await hf.queue('q').add('work')
      const proxy = await server.openProxy()
      let isUnderWay = false
      const onProgress = () => {
        if (!isUnderWay) proxy.stall()
        isUnderWay = true
      }

      const copying = copyStore({ from, to: proxy.through(newSchema()), onProgress })
      await until('the copy is under way', () => isUnderWay)
      const { items } = await hf.queue('q').list()
      const refused = await refusalOf(openQuietly(from, { busyTimeoutMs: 500 }))
      proxy.mend()

      expect(items).toHaveLength(1)
      expect(refused).toMatchObject({ code: 'BUSY' })
      expect((await copying).outcome).toBe('copied')
    },
  )

  test('can be opened again as the guide says, if the new store is lost', async () => {
    const [file, schema] = [newStore(), newSchema()]
    await makeStore(file)
    await copy(file, schema)
    await copy(schema, newStore())

    raw(file, "delete from meta where key = 'moved'")
    await onServer(schema, (client, name) => client.query(`delete from ${name}.meta where key = 'moved'`))

    for (const url of [file, schema]) await (await openHere(url, { background: false })).state('again').set(1)
  })

  test('stays usable if that was asked for', async () => {
    const from = newStore()
    await makeStore(from)
    const to = newSchema()

    const report = await copyStore({ from, to, keepSource: true })

    expect(report.source).toBe('kept')
    for (const url of [from, to]) {
      const hf = await openHere(url, { background: false })
      await hf.state('own').set(url.length)
    }
    await expect(copy(from, to)).rejects.toMatchObject({ code: 'STORE_UNFIT' })
  })
})

describe('on the command line', () => {
  test('the report is a table for people and one object with --json; off a terminal there is no bar', async () => {
    const from = newStore()
    const hf = await openQuietly(from)
    await hf.queue('jobs').add('work')
    await hf.close()

    const [plan, told] = await Promise.all([
      runCopy(from, newStore(), '--dry-run'),
      runCopy(from, newStore(), '--keep-source'),
    ])
    const json = await runCopy(from, newSchema(), '--json')
    const refused = await runCopy(from, newStore(), '--json')

    expect(plan).toMatchObject({ code: 0, stderr: '' })
    expect(plan.stdout).toContain('nothing was changed')
    expect(told).toMatchObject({ code: 0, stderr: '' })
    expect(told.stdout).toMatch(/item\s.*1/)
    expect(told.stdout).toContain('stays usable')
    expect(json).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(json.stdout)).toMatchObject({ schemaVersion: 1, outcome: 'copied', source: 'shut' })
    expect(refused.code).toBe(10)
    expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: 'STORE_UNFIT' } })
  })

  test.each([
    ['a file', () => newStore()],
    ['a schema', () => newSchema()],
  ])(
    'a copy to %s that ended before it copied the tokens of leases does so when it is run again [S5c-29]',
    async (_, place) => {
      // Where tokens of a store on a server are kept.
      vi.stubEnv('XDG_STATE_HOME', folder)
      onTestFinished(() => void vi.unstubAllEnvs())
      const [from, to] = [newStore(), place()]
      const as = ['--agent', 'holder']
      await runCli(from, 'lock', 'acquire', 'deploy', ...as)
      // Without the command around it, as after a kill between the two.
      await copy(from, to)

      const again = await runCopy(from, to)
      const released = await runCli(to, 'lock', 'release', 'deploy', ...as)

      expect(again).toMatchObject({ code: 0, stderr: '' })
      expect(released).toMatchObject({ released: true })
    },
  )
})

test('settings saved in a store move with it [S5-16]', async () => {
  const [from, to] = [join(folder, 'grace.db'), join(folder, 'grace-copied.db')]
  const hf = await open(from, { background: false, manualGraceMs: 60_000 })
  await hf.close()

  await copyStore({ from, to })

  expect(query(to, "select value from meta where key = 'manual_grace_ms'")).toEqual([{ value: '60000' }])
})

test('a store restored on a server that has seen fewer transactions keeps its events in order', async () => {
  const to = newSchema()
  const hf = await openQuietly(to)
  await hf.state('before').set(1)
  await hf.close()
  const { seq } = await onServer(to, async (client, schema) => {
    const { rows } = await client.query(
      `update ${schema}.event set seq = seq + 8192::bigint * 1000000000 returning seq`,
    )
    return { seq: Number(rows[0].seq) }
  })

  const restored = await openHere(to, { background: false })
  await restored.state('after').set(1)

  const { events } = (await restored.execute('events.list', { since: seq - 1 })) as {
    events: { kind: string; id: string }[]
  }
  expect(events.map(({ id }) => id)).toEqual(['before', 'after'])
})

type CopyEnds = Pick<CopyRequest, 'from' | 'to'>

function copy(from: string, to: string): Promise<CopyReport> {
  return copyStore({ from, to })
}

/** Without a process behind it, which takes longer to start than most tests. */
function openQuietly(url: string, options: OpenOptions = {}): Promise<Holdfast> {
  return open(url, { logger: false, background: false, ...options })
}

async function makeStore(url: string): Promise<void> {
  await (await openQuietly(url)).close()
}

function refusalOf(work: Promise<unknown>): Promise<unknown> {
  return work.catch((error) => error)
}

async function runCopy(from: string, to: string, ...more: string[]) {
  const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
  return run(process.execPath, [main, 'copy', '--from', from, '--to', to, ...more])
}

/** Copies, and at a point of that lets another process copy to its end; answers why the first was refused. */
function copyWhile(ours: CopyEnds, point: string, theirs: CopyEnds): Promise<unknown> {
  const reached = (now: string) => {
    if (now !== point) return
    const { stderr } = spawnSync(process.execPath, [program('copier'), JSON.stringify(theirs)])
    expect(stderr.toString()).toBe('')
  }
  return refusalOf(copyStore({ ...ours, environment: { ...systemEnvironment, reached } }))
}

/** A copy in a process of its own that is killed at a point; says by what it ended. */
async function killedCopy(facts: { from: string; to: string; point: string; times: number }) {
  const { signal, stderr } = await run(process.execPath, [program('copier'), JSON.stringify(facts)])
  expect(stderr).toBe('')
  return signal
}

/** A copy of the file is a copy of the store while nobody has it open. */
function populatedStore(): string {
  const from = newStore()
  copyFileSync(template, from)
  return from
}

/** What a copy left that was killed in the middle. */
function halfCopy(): { from: string; to: string } {
  const [from, to] = [newStore(), newStore()]
  copyFiles(interrupted, from)
  copyFiles(half, to)
  return { from, to }
}

function copyFiles(left: string, place: string): void {
  copyFileSync(left, place)
  // What was committed last may still be in the log.
  if (existsSync(`${left}-wal`)) copyFileSync(`${left}-wal`, `${place}-wal`)
}

async function makeTemplate(from: string): Promise<Grants> {
  await (await open(from, { agent: 'one-that-ended', logger: false })).close()
  raw(from, `update lease_clock set offset_ms = offset_ms - ${sleptMs}`)
  const hf = await openQuietly(from, { agent: 'populator' })
  const given = await populate(hf)
  await hf.close()
  const other = await openQuietly(from, { agent: 'populator', namespace: 'other' })
  await other.queue('jobs').add('of another namespace', { key: 'first' })
  await other.state('config').set('other')
  await other.close()
  raw(from, olderRows)
  return given
}

/** What takes a thousand recoveries, or waiting items, to come about. */
const olderRows = `insert into recovery_total values ('default', 'jobs', 1, 2, 3, 1);
insert into recovery_failure values ('default', 'jobs', 'claim', 2, 1, 'ada', 'disk full', 1);
insert into cascade values ('default', 'closed', 1);
pragma wal_checkpoint(truncate)`

async function described(url: string): Promise<Record<string, unknown>> {
  const hf = await reader(url)
  const told = await describeStore(hf)
  await hf.close()
  return told
}

/** What is in the other namespace. */
async function describedBeside(url: string): Promise<unknown[]> {
  const hf = await reader(url, 'other')
  const told = [
    await hf.queue('jobs').list(),
    await hf.state('config').get(),
    await hf.execute('events.list', {}),
  ]
  await hf.close()
  return told
}

/** Looks on, and heals nothing. */
function reader(url: string, namespace = 'default'): Promise<Holdfast> {
  return openQuietly(url, { agent: 'reader', namespace, recovery: { onOpen: false } })
}

/** How long each lease lasts and how soon each message is due, as the store itself sees it. */
async function timesLeft(url: string): Promise<Record<string, number>> {
  const hf = await reader(url)
  const { locks } = await hf.locks.list()
  const { items } = await hf.queue('jobs').list({ phase: 'held' })
  const held = [...locks, ...items].map(
    (each) =>
      [`${'name' in each ? `${each.name}#${each.slot}` : each.id}`, each.lease?.remainingMs ?? 0] as const,
  )
  const { dueInMs } = (await hf.execute('messages.nextDue', { adapters: ['inbox', 'nowhere'] })) as {
    dueInMs: number
  }
  await hf.close()
  return Object.fromEntries([...held, ['the next message', dueInMs]])
}

function withoutPassword(url: string): string {
  return url.replace(/:[^:@/]*@/, '@')
}

async function hasSchema(name: string): Promise<boolean> {
  const text = 'select 1 from pg_namespace where nspname = $1'
  const { rowCount } = await server.server.query((client) => client.query(text, [name]))
  return rowCount === 1
}

function raw(path: string, sql: string): void {
  const database = openRaw(path)
  database.exec(sql)
  database.close()
}

function digestOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}
