/** Many processes at once on one file: one winner each, nothing lost, nothing twice. */
import type { OpenOptions, QueueItem, RecoveryReport } from 'holdfast'
import { beforeAll, expect, test } from 'vitest'
import {
  type Actor,
  audit,
  countById,
  expectCompletedOnce,
  expectSound,
  expectSoundAndFree,
  newStore,
  numbered,
  often,
  openHere,
  print,
  query,
  startOwnActor,
  until,
} from './support.ts'

/**
 * Started once, because 32 processes need longer to load the package than for all they do here; a few at a time,
 * because other tests run meanwhile and some of them watch the clock.
 */
const crowd: Actor[] = []
beforeAll(async () => {
  while (crowd.length < 32) crowd.push(...(await Promise.all(times(4, () => startOwnActor()))))
})

const thousands = often({ few: 3, many: 10 })

test(`8 processes share ${thousands},000 items and complete each exactly once [X6] [Q12] [F-01] [F-05] [F-08]`, async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false, durability: 'normal' })
  const batches = await Promise.all(times(thousands, () => hf.queue('q').addMany(numbered(1000))))
  const ids = batches.flatMap((batch) => batch.ids)
  const workers = await gatherAt(store, 8, { durability: 'normal' })

  const startedAt = performance.now()
  await Promise.all(workers.map((worker) => worker.ask('work', { queue: 'q', concurrency: 10 })))
  const isDone = async () => (await hf.queue('q').stats()).completed >= ids.length
  await until('all are completed', isDone, { patience: 50_000, lookEveryMs: 100 })
  const seconds = (performance.now() - startedAt) / 1000
  const handled = await Promise.all(workers.map((worker) => worker.ask<number>('stop')))

  print(
    `${ids.length} items in ${seconds.toFixed(1)} s by 8 processes, each between ${Math.min(...handled)} and ${Math.max(...handled)}`,
  )
  const events = await audit(hf)
  expectCompletedOnce(events, ids)
  expect(countById(events, 'item.claimed').size).toBe(ids.length)
  expect(handled.reduce((total, each) => total + each)).toBe(ids.length)
  await hf.close()
  expectSoundAndFree(store)
})

test('of 32 processes that claim at once, exactly one wins each item [X6] [Q12] [D-10] [E-02] [HP-012]', async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false })
  const queue = hf.queue('q')
  // Without threads of their own: a claim is the same, and 32 threads less have to load.
  const claimers = await gatherAt(store, 32, { background: false })
  const ids: string[] = []

  for (let round = 0; round < 10; round++) {
    const { item } = await queue.add({ round })
    ids.push(item.id)
    const answers = await race<{ outcome: string; item?: QueueItem<unknown> }>(claimers, 'next', {
      queue: 'q',
    })

    const winners = claimers.filter((_, number) => answers[number]?.outcome === 'claimed')
    expect(answers.filter(({ outcome }) => outcome === 'empty')).toHaveLength(31)
    expect(winners).toHaveLength(1)
    await winners[0]?.ask('complete', { queue: 'q', item: item.id })
  }

  const events = await audit(hf)
  expectCompletedOnce(events, ids)
  expect([...countById(events, 'item.claimed').values()]).toEqual(ids.map(() => 1))
  await hf.close()
  expectSoundAndFree(store)
})

test('16 processes that open a new file at once all succeed on one schema [X6] [Z10]', async () => {
  const single = newStore()
  await (await openHere(single)).close()

  for (let round = 0; round < often({ few: 2, many: 4 }); round++) {
    const store = newStore()
    const openers = await gather(16)
    const statuses = await race(openers, 'open', { store, background: round === 0 })
    await race(openers, 'add', { queue: 'q', payload: 'here' })

    const schema = 'select type, name, sql from sqlite_schema order by type, name'
    expect(new Set(statuses.map((status) => JSON.stringify(status))).size).toBe(1)
    expect(query(store, schema)).toEqual(query(single, schema))
    expect(query(store, 'pragma user_version')).toEqual(query(single, 'pragma user_version'))
    expect(query(store, 'select count(*) as clocks from lease_clock')).toEqual([{ clocks: 1 }])
    expect(query(store, 'select count(*) as items from item')).toEqual([{ items: 16 }])
    expectSound(store)
  }
})

test('concurrent recoveries in 4 processes reclaim each of 300 stale items exactly once [X6] [Q13] [CV-008] [A-11]', async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false, recovery: false })
  const queue = hf.queue('q')
  const { ids } = await queue.addMany(numbered(300))
  for (let claimed = 0; claimed < 300; claimed += 100)
    await queue.claimMany(100, { renew: false, leaseMs: 0 })
  await until(
    'all 300 have lapsed',
    async () => (await hf.recovery.getRecoveryStats()).entriesReclaimed === 300,
  )
  const healers = await gatherAt(store, 4, { recovery: false })

  const reports = await race<RecoveryReport>([...healers, ...healers], 'recover')

  const reclaimed = countById(await audit(hf), 'item.reclaimed')
  print(
    `300 stale items, reclaimed by 8 recoveries: ${reports.map((each) => each.entriesReclaimed).join(' ')}`,
  )
  expect([...reclaimed.keys()].sort()).toEqual([...ids].sort())
  expect([...reclaimed.values()]).toEqual(ids.map(() => 1))
  expect(reports.flatMap((report) => report.ids).sort()).toEqual([...ids].sort())
  expect(await queue.stats()).toMatchObject({ pending: 300, processing: 0 })
  expectSoundAndFree(store)
})

/** The same order to all at once; the barrier is that all of them are up and waiting for it. */
function race<Result>(actors: readonly Actor[], order: string, facts: object = {}): Promise<Result[]> {
  return Promise.all(actors.map((actor) => actor.ask<Result>(order, facts)))
}

/** So many of the crowd, without what they had open before. */
async function gather(count: number): Promise<Actor[]> {
  const actors = crowd.slice(0, count)
  await race(actors, 'close')
  return actors
}

/** So many of the crowd with this store open. */
async function gatherAt(store: string, count: number, options: OpenOptions = {}): Promise<Actor[]> {
  const actors = await gather(count)
  await race(actors, 'open', { store, ...options })
  return actors
}

function times<Result>(count: number, make: () => Result): Result[] {
  return Array.from({ length: count }, make)
}
