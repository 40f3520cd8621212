/** A claim with a filter finds a match however far down the line it is, and blocks nobody while it searches. */
import fc from 'fast-check'
import type { ClaimNextOptions, Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { isQuick } from '../support/quick.ts'
import { runs } from '../support/random.ts'
import { forEachEngine, type Opened, type Store } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

/** Nothing is renewed or healed beside the test. */
const quiet = { agent: 'ada', background: false } as const

forEachEngine((engine) => {
  test('a task that fits is found behind thousands that do not [S5e-8]', async () => {
    const { hf } = await engine.open(quiet)
    await addPlain(hf, isQuick ? 3_050 : 10_050)
    const found: string[] = []
    const filters: Record<string, [object, ClaimNextOptions]> = {
      label: [{ labels: ['rare'] }, { labels: ['rare'] }],
      owner: [{ owner: 'olga' }, { owner: 'olga' }],
      host: [{ host: 'attic' }, { host: 'attic' }],
      both: [
        { labels: ['odd'], owner: 'otto' },
        { labels: ['odd'], owner: 'otto', anyHost: true },
      ],
    }
    for (const [key, [words]] of Object.entries(filters)) await hf.tasks.addTask(key, { key, ...words })

    for (const [, filter] of Object.values(filters)) {
      const { task } = await claimedTask(hf.tasks.claimNext(filter))
      found.push(task.key as string)
    }
    const again = await Promise.all(Object.values(filters).map(([, filter]) => hf.tasks.claimNext(filter)))

    expect(found).toEqual(Object.keys(filters))
    expect(again.map(({ outcome }) => outcome)).toEqual(found.map(() => 'empty'))
  })

  test('the one task that is in two long lists is found, once [S5e-8]', async () => {
    const { hf, store } = await engine.open(quiet)
    const other = await store.open({ ...quiet, agent: 'bob' })
    await addLabelled(hf, 2_300, (number) => (number % 2 === 0 ? ['left'] : ['right']))
    const labels = ['left', 'right']
    const empty = await hf.tasks.claimNext({ labels })
    const wanted = await Promise.all([1, 2, 3].map(() => hf.tasks.addTask('both', { labels, priority: 9 })))
    const atOnce = await hf.execute('tasks.seek', { labels, at: null, isWhole: true })

    const claims = await Promise.all(
      [hf, other, hf, other, hf].map((handle) => handle.tasks.claimNext({ labels })),
    )

    const ids = claims.flatMap((claim) => (claim.outcome === 'claimed' ? [claim.task.id] : []))
    expect(empty.outcome).toBe('empty')
    expect(atOnce).toMatchObject({ found: true, position: { from: { priority: 9 } } })
    expect(ids.sort()).toEqual(wanted.map(({ id }) => id).sort())
  })

  test('a claim that had to search far is one request under its idempotency key [S5e-8]', async () => {
    const { hf } = await engine.open(quiet)
    await addLabelled(hf, 300, (number) => (number % 2 === 0 ? ['left'] : ['right']))
    const labels = ['left', 'right']
    for (const title of ['one', 'two']) await hf.tasks.addTask(title, { labels })
    const request = { labels, idempotencyKey: 'k', agent: 'bob' }

    const first = await claimedTask(hf.tasks.claimNext(request))
    const second = await claimedTask(hf.tasks.claimNext(request))
    const empty = await hf.tasks.claimNext({ labels: ['left', 'none'], idempotencyKey: 'none' })

    expect([first.task.title, second.task.title]).toEqual(['one', 'one'])
    expect(second.task.token).toBe(first.task.token)
    expect(empty.outcome).toBe('empty')
  })

  test('with any filter, a claim takes the first task that a list with that filter shows [S5e-8]', async () => {
    const { hf } = await engine.open({ ...quiet, agent: 'olga' })
    await addRandom(hf, 1_500)
    const filter = fc.record(
      {
        labels: fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd', 'none'), { maxLength: 3 }),
        owner: fc.constantFrom('olga', 'otto', 'nobody', null),
        mine: fc.boolean(),
        host: fc.constantFrom('attic', 'cellar', null),
        maxPriority: fc.nat(10),
      },
      { requiredKeys: [] },
    )

    await fc.assert(
      fc.asyncProperty(filter, async (asked) => {
        const { tasks } = await hf.tasks.listTasks({ ...asked, status: 'Todo', limit: 1 })
        const claim = await hf.tasks.claimNext({ ...asked, anyHost: true })
        const claimed = claim.outcome === 'claimed' ? claim.task.id : null
        expect(claimed).toBe(tasks[0]?.id ?? null)
      }),
      runs(40),
    )
  })

  describe('the filter words stored for ready tasks', () => {
    test('match the ready tasks, whatever happened [S5e-8]', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(act, { minLength: 10, maxLength: 40 }), async (acts) => {
          const opened = await engine.open({ ...quiet, agent: 'olga' })
          for (const each of acts) await perform(opened, each)

          expect(await keptWords(opened.store)).toEqual(await expectedWords(opened.store))
        }),
        runs(15),
      )
    })

    test('do not exist for items of other queues [S5e-8]', async () => {
      const { hf, store } = await engine.open(quiet)
      const jobs = hf.queue('jobs')
      const others = hf.queue('others', { workflow: 'task' })
      await jobs.add(null, { data: { labels: ['a'], owner: 'olga' } })
      await others.add(null, { data: { labels: ['a'], owner: 'olga' } })

      expect((await store.countRows()).ready_word).toBe(0)
    })

    test('of any length are found, and none is mistaken for another [S5e-8]', async () => {
      const { hf } = await engine.open(quiet)
      const q = hf.queue('tasks', { workflow: 'task' })
      const long = `${'x'.repeat(200)} ${'\u0001é\u{1f600}'.repeat(2_000)}`
      await q.add(null, { data: { labels: [long, long], owner: `${long}1`, host: '' } })
      await q.add(null, { data: { labels: ['null', ''], owner: 'null', host: null } })

      const byNull = await claimedTask(hf.tasks.claimNext({ owner: 'null', labels: ['null'] }))
      const nobodys = await hf.tasks.claimNext({ owner: null, anyHost: true })
      const rest = await claimedTask(hf.tasks.claimNext({ anyHost: true }))

      expect(byNull.task.labels).toEqual(['null', ''])
      expect(nobodys.outcome).toBe('empty')
      expect(rest.task.owner).toBe(`${long}1`)
    })
  })

  describe('a claim that waits with a filter', () => {
    test('gets a task when one that fits is added, each task once [S5e-8]', async () => {
      const { hf, store } = await engine.openInRealTime(quiet)
      await addPlain(hf, 1_200)
      const labels = ['a', 'b', 'c', 'd']
      const handles = await Promise.all(labels.map((label) => store.open({ ...quiet, agent: label })))
      const waiting = handles.flatMap((handle, index) =>
        [1, 2].map(() =>
          claimedTask(handle.tasks.claimNext({ labels: [labels[index] as string], waitMs: 20_000 })),
        ),
      )

      for (const round of [1, 2])
        for (const label of labels)
          await hf.tasks.addTask(`${label}${round}`, { labels: [label], priority: 9 })
      const claims = await Promise.all(waiting)

      const titles = claims.map(({ task }) => task.title)
      expect(titles.sort()).toEqual(['a1', 'a2', 'b1', 'b2', 'c1', 'c2', 'd1', 'd2'])
    })

    test('tries to claim only when something fits, whatever else is added [S5e-8]', async () => {
      const { hf, env, store } = await engine.open(quiet)
      const other = await store.open({ ...quiet, agent: 'bob' })
      await addPlain(hf, 10)
      let claims = 0
      const waiting = other.waitForWork({
        queue: 'tasks',
        wanted: { labels: ['rare'] },
        waitMs: 4_000,
        claim: () => {
          claims++
          return other.tasks.claimNext({ labels: ['rare'] })
        },
        isEnough: ({ outcome }) => outcome === 'claimed',
        giveBack: () => undefined,
      })
      for (let added = 0; added < 20; added++) {
        await hf.tasks.addTask('common', { labels: ['common'] })
        await env.advance(100)
      }
      const claimsInVain = claims

      await hf.tasks.addTask('rare', { labels: ['rare'] })
      await env.advance(2_000)

      expect((await claimedTask(waiting)).task.title).toBe('rare')
      expect([claimsInVain, claims]).toEqual([1, 2])
    })
  })
})

async function addPlain(hf: Holdfast, count: number): Promise<void> {
  const queue = hf.queue('tasks', { workflow: 'task' })
  for (let added = 0; added < count; added += 1_000)
    await queue.addMany(Array.from({ length: Math.min(1_000, count - added) }, () => ({ payload: null })))
}

async function addLabelled(hf: Holdfast, count: number, labels: (number: number) => string[]): Promise<void> {
  const numbers = Array.from({ length: count }, (_, number) => number)
  await Promise.all(numbers.map((number) => hf.tasks.addTask(`task ${number}`, { labels: labels(number) })))
}

/** The same each time: a few of each combination, so that claims that follow each other find something. */
async function addRandom(hf: Holdfast, count: number): Promise<void> {
  const numbers = Array.from({ length: count }, (_, number) => number)
  const word = (number: number, words: readonly (string | null)[]) => words[number % words.length] ?? null
  await Promise.all(
    numbers.map((number) =>
      hf.tasks.addTask(`task ${number}`, {
        labels: ['a', 'b', 'c', 'd'].filter((_, bit) => (number >> bit) % 2 === 1 && number % 7 > 1),
        owner: word(number, [null, 'olga', 'otto', null, null]),
        host: word(number, [null, null, 'attic', null, 'cellar', null, null]),
        priority: (number * 7) % 11,
      }),
    ),
  )
}

const words = fc.record({
  labels: fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 3 }),
  owner: fc.constantFrom('olga', 'otto', null),
  host: fc.constantFrom('attic', null),
  priority: fc.nat(10),
})
const task = fc.nat(6)
type Act =
  | { readonly do: 'add' | 'update'; readonly task: number; readonly words: Record<string, unknown> }
  | { readonly do: 'foreign'; readonly data: unknown }
  | { readonly do: 'setPriority'; readonly task: number; readonly priority: number }
  | { readonly do: 'lapse' }
  | {
      readonly do: (typeof simple)[number]
      readonly task: number
    }
const simple = [
  ...(['claim', 'claimNext', 'release', 'review', 'complete', 'remove', 'handoff', 'depend'] as const),
  ...(['delayed', 'fail', 'quarantine'] as const),
]
const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('add', 'update'), task, words }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('foreign'), data: fc.jsonValue() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('setPriority'), task, priority: fc.nat(10) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lapse') }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constantFrom(...simple), task }) },
) as fc.Arbitrary<Act>

/** Most can be refused, by how things stand; only what they leave behind is looked at. */
async function perform({ hf, env }: Opened, act: Act): Promise<void> {
  try {
    await run(hf, env, act)
  } catch (error) {
    expect(error).toHaveProperty('code')
  }
}

async function run(hf: Holdfast, env: Opened['env'], act: Act): Promise<unknown> {
  const queue = hf.queue('tasks', { workflow: 'task' })
  if (act.do === 'foreign')
    return queue.add(null, { data: { labels: act.data, owner: act.data, host: act.data } })
  if (act.do === 'lapse') return env.advance(60_000)
  const ref = `t-${act.task}`
  const manual = { agent: 'bob', leaseMs: 30_000 }
  switch (act.do) {
    case 'add':
      return hf.tasks.addTask(ref, { key: ref, ...act.words })
    case 'update':
      return hf.tasks.updateTask(ref, { ...act.words, force: true, reason: 'test' })
    case 'setPriority':
      return queue.setPriority(ref, act.priority)
    case 'claim':
      return hf.tasks.claimTaskForAgent(ref, manual)
    case 'claimNext':
      return hf.tasks.claimNext(manual)
    case 'release':
      return hf.tasks.releaseTask(ref, { agent: 'bob' })
    case 'review':
      return hf.tasks.reviewTask(ref, { agent: 'bob' })
    case 'complete':
      return hf.tasks.completeTask(ref, { agent: 'bob' })
    case 'remove':
      return hf.tasks.removeTask(ref, { reason: 'test', force: true, dependents: 'release' })
    case 'handoff':
      return hf.tasks.handoff({ agent: 'bob', to: 'olga', offerMs: 50_000 })
    case 'depend':
      return hf.tasks.updateTask(ref, { dependsOn: [`t-${(act.task + 1) % 7}`] })
    case 'delayed':
      return queue.add(null, { runAt: env.now() + 30_000, data: { labels: ['a'] } })
    case 'fail':
      return queue.fail(ref, 'no', { agent: 'bob' })
    case 'quarantine':
      return queue.releaseFromQuarantine(ref)
  }
}

async function keptWords(store: Store): Promise<string[]> {
  const rows = await store.readRows('ready_word')
  return rows
    .map(({ field, value, priority, added_at, item }) =>
      [field, value, Number(priority), Number(added_at), item].join(' '),
    )
    .sort()
}

/** By the rule in words: each distinct label, the owner and the host of every ready task; what is no text is none. */
async function expectedWords(store: Store): Promise<string[]> {
  const items = [...(await store.readTables())].filter(([name]) => name.startsWith('item:'))
  const texts = (value: unknown) =>
    (Array.isArray(value) ? value : []).filter((each) => typeof each === 'string')
  return items
    .map(([, item]) => item)
    .filter(({ queue, phase }) => queue === 'tasks' && phase === 'ready')
    .flatMap(({ data, priority, addedAt, id }) => {
      const { labels, owner, host } = data as Record<string, unknown>
      const found = [
        ...[...new Set(texts(labels))].map((label) => ['label', label]),
        ['owner', texts([owner])[0] ?? null],
        ['host', texts([host])[0] ?? null],
      ]
      return found.map(([field, word]) =>
        [field, JSON.stringify(word), Number(priority), Number(addedAt), id].join(' '),
      )
    })
    .sort()
}
