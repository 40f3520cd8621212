/** Many processes on one PostgreSQL store: which can judge which, and that none blocks another. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { claimed, refusal } from '../support/outcomes.ts'
import { ownServer, schemaOf } from './server-store.ts'
import {
  type Actor,
  type ActorOptions,
  claimBy,
  expectHeardAtOnce,
  numbered,
  often,
  openActor,
  openHere,
  print,
  program,
  quantile,
  reclaimOf,
  run,
  startActor,
  startProgram,
} from './support.ts'

const own = ownServer()

/** A machine of its own is a temporary folder of its own; where the user has a runtime folder, all share that. */
const hasOneMachine = existsSync(`/run/user/${process.getuid?.()}`)
if (hasOneMachine) console.log('tests with two machines are skipped: this user has a folder in /run/user')

/** The goal is a second; on a machine with other things to do it may take longer, but never a lease of 30 s. */
const promptMs = 5000

test('commands that read, take work or try out an import create no store in a database without one [S6-E2]', async () => {
  const store = own.newStore()
  const cli = new URL('../../dist/cli/main.js', import.meta.url).pathname
  const holdfast = (...words: string[]) =>
    run(process.execPath, [cli, ...words], { env: { HOLDFAST_URL: store } })
  const client = await own.connect()
  const hasSchema = async () => {
    const { rowCount } = await client.query('select from pg_namespace where nspname = $1', [schemaOf(store)])
    return rowCount === 1
  }

  const refused = await Promise.all([
    holdfast('status'),
    holdfast('queue', 'next', 'jobs'),
    holdfast('run', '--queue', 'jobs', '--', 'true'),
  ])
  const completed = await holdfast('complete', '--', 'queue', 'show', '')
  const issues = new URL('../support/fixtures/beads.jsonl', import.meta.url).pathname
  const tried = await holdfast('import', 'beads', issues, '--dry-run')
  const isThereBefore = await hasSchema()
  const added = await holdfast('queue', 'add', 'jobs', '1')

  expect(refused.map(({ code }) => code)).toEqual([3, 3, 3])
  for (const { stderr } of refused) expect(stderr).toContain('there is no store at postgres')
  expect([completed.code, tried.code, isThereBefore]).toEqual([0, 0, false])
  expect([added.code, await hasSchema()]).toEqual([0, true])
})

test('another process of the same machine reruns the item of a killed worker at once [X6] [Q13]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  const machine = newMachine()
  const [heir, ...holders] = (await Promise.all(
    ['heir', 'first', 'second'].map((agent) => openActorOn(machine, store, { agent })),
  )) as [Actor, ...Actor[]]
  const { ids } = await hf.queue('q').addMany(numbered(holders.length))
  for (const holder of holders) await claimBy(holder, 'q')
  await heir.ask('work', { queue: 'q', each: true })
  const delays: number[] = []

  for (const [index, holder] of holders.entries()) {
    const killedAt = performance.now()
    holder.kill()
    const { at } = await heir.told('handling', ({ item }) => item === ids[index])
    delays.push(at - killedAt)
  }

  print(`run again after a kill: ${delays.map(Math.round).join(', ')} ms`)
  expect(Math.max(...delays)).toBeLessThan(promptMs)
  expect((await reclaimOf(hf, ids[0] as string)).detail).toMatchObject({ holder: 'first' })
})

test('a process that only reads its inbox learns at once of what another process sends [S5c-12]', async () => {
  await expectHeardAtOnce(own.newStore())
})

test('a process of the same machine reclaims what one killed in another namespace held [S5c-38]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { namespace: 'other', background: false, recovery: false })
  const machine = newMachine()
  const holder = await openActorOn(machine, store, { agent: 'holder', namespace: 'other', recovery: false })
  const healer = await openActorOn(machine, store, { agent: 'healer', recovery: { everyMs: 250 } })
  await hf.queue('q').add('work')
  const { id } = await claimBy(holder, 'q', { leaseMs: 3_600_000 })

  holder.kill()

  expect(await reclaimOf(hf, id)).toMatchObject({
    agent: 'holdfast',
    detail: { holder: 'holder', healer: { pid: healer.pid } },
  })
})

test.skipIf(hasOneMachine)(
  'a process of another machine cannot judge; a report from the dead process’s machine counts [X6] [Q13]',
  async () => {
    const store = own.newStore()
    const hf = await openHere(store, { recovery: { everyMs: 50 } })
    const machine = newMachine()
    const holder = await openActorOn(machine, store, { agent: 'holder' })
    await hf.queue('q').add('work')
    const item = await claimBy(holder, 'q')
    holder.kill()
    await holder.ended()

    const judged = []
    for (let look = 0; look < 3; look++) judged.push(await hf.recovery.detectAndRecoverStale())
    const meanwhile = await hf.queue('q').get(item.id)
    await openActorOn(machine, store, { agent: 'neighbour' })
    const { agent, detail } = await reclaimOf(hf, item.id)
    const claim = await hf.queue('q').next()

    expect(judged.map(({ entriesReclaimed }) => entriesReclaimed)).toEqual([0, 0, 0])
    expect(meanwhile).toMatchObject({ phase: 'held', holder: 'holder' })
    expect(agent).toBe('neighbour')
    expect(detail).toMatchObject({ holder: 'holder', evidence: `process ${holder.pid} is gone` })
    expect(claim).toMatchObject({ outcome: 'claimed', item: { id: item.id } })
  },
)

test.skipIf(hasOneMachine)(
  'a process that closes leaves no mark behind, one that is killed does [S5-33]',
  async () => {
    const store = own.newStore()
    const machine = newMachine()
    const [closes, dies] = await Promise.all([openActorOn(machine, store), openActorOn(machine, store)])
    const pids = () =>
      readdirSync(join(machine, `holdfast-${process.getuid?.()}`))
        .filter((name) => /^\d/.test(name))
        .map((name) => Number.parseInt(name, 10))
    const whileOpen = pids()

    await closes.ask('close')
    dies.kill()
    await dies.ended()

    expect(whileOpen.sort()).toEqual([closes.pid, dies.pid].sort())
    expect(pids()).toEqual([dies.pid])
  },
)

test('many processes that open and close at once all exit normally [S5-30]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  let isOver = false
  // Every commit is told to all who have the store open, also to those who are closing it.
  const committing = (async () => {
    while (!isOver) await hf.queue('other').add('work')
  })()

  const endings = await Promise.all(
    Array.from({ length: 4 }, () =>
      // Three times each has to start what a busy machine needs seconds for.
      run(process.execPath, [program('leaves'), store, 'opens and closes again and again'], {
        patience: 50_000,
      }),
    ),
  ).finally(() => {
    isOver = true
  })
  await committing

  expect(endings.map(({ code, stdout, stderr }) => ({ code, stdout, stderr }))).toEqual(
    endings.map(() => ({ code: 0, stdout: 'finished\n', stderr: '' })),
  )
})

test('for a holder of another boot the lease decides, and not before its end [X6] [Q13]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const holder = await openActor(store, { agent: 'holder', leaseMs: 2000, identity: { bootId: 'elsewhere' } })
  await hf.queue('q').add('work')
  const item = await claimBy(holder, 'q')

  holder.kill()
  await holder.ended()
  const remainingMs = (await hf.queue('q').get(item.id))?.lease?.remainingMs ?? 0
  const askedAt = performance.now()
  const { seenAt, detail } = await reclaimOf(hf, item.id)

  expect(seenAt - askedAt).toBeGreaterThan(remainingMs - 50)
  expect(detail).toMatchObject({ evidence: `its lease lapsed ${detail?.expiredForMs} ms ago` })
})

test('16 processes that open a new schema at once all succeed on one store [X6] [Z10]', async () => {
  const crowd: Actor[] = []
  while (crowd.length < 16) crowd.push(...(await Promise.all([1, 2, 3, 4].map(() => startActor()))))

  for (let round = 0; round < often({ few: 1, many: 3 }); round++) {
    const store = own.newStore()
    const open = (actor: Actor) => actor.ask('open', { store, background: false })
    const statuses = await Promise.all(crowd.map(open))
    await Promise.all(crowd.map((actor) => actor.ask('add', { queue: 'q', payload: 'here' })))
    await Promise.all(crowd.map((actor) => actor.ask('close')))

    expect(new Set(statuses.map((status) => JSON.stringify(status))).size).toBe(1)
    expect(await own.query(store, 'select count(*)::int as items from holdfast.item')).toEqual([
      { items: 16 },
    ])
    expect(await own.query(store, 'select count(*)::int as queues from holdfast.queue')).toEqual([
      { queues: 1 },
    ])
  }
})

test('a process that finds a newer schema is refused and changes nothing [X6] [Z10]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  await own.query(store, "update holdfast.meta set value = '9999' where key = 'schema_version'")

  const error = await refusal(() => openHere(store, { agent: 'old' }))
  const { item } = await hf.queue('q').add('work')

  expect(error).toMatchObject({ code: 'STORE_UNFIT', facts: { schemaVersion: 9999 } })
  expect(await own.query(store, "select value from holdfast.meta where key = 'schema_version'")).toEqual([
    { value: '9999' },
  ])
  expect(await hf.queue('q').get(item.id)).toMatchObject({ payload: 'work' })
})

test('claims that continue from where the last one began miss nothing that was added ahead of it [X6] [Q5]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { background: false })
  const other = await openHere(store, { background: false })
  const [queue, theirs] = [hf.queue('q'), other.queue('q')]
  await queue.addMany(numbered(200))
  const next = async () => (await claimed(queue.next())).item
  for (let round = 0; round < 5; round++) await next()

  const held = await next()
  const ours = await queue.add('ours', { priority: 0 })
  const first = await next()
  await queue.release(held.id)
  const second = await next()
  const [{ item: last }] = await Promise.all([theirs.add('theirs', { priority: 0 }), next()])
  const began = performance.now()
  let seen = await next()
  while (seen.id !== last.id && performance.now() - began < 5000) seen = await next()

  expect([first.id, second.id]).toEqual([ours.item.id, held.id])
  expect(seen.id).toBe(last.id)
  expect(performance.now() - began).toBeLessThan(1000)
})

const thousands = often({ few: 2, many: 10 })

test(`two processes cancel and claim ${thousands},000 of each other’s items without a deadlock [X6] [Q20]`, async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  const added = await Promise.all(
    Array.from({ length: thousands }, () => hf.queue('q').addMany(numbered(1000))),
  )
  const ids = added.flatMap((each) => each.ids)
  const racers = await Promise.all([openRacer(store, 'left'), openRacer(store, 'right')])
  const deadlocksBefore = await countDeadlocks(store)

  const startedAt = performance.now()
  const done = await Promise.all(
    racers.map((racer) =>
      racer.ask<Done>('cancelAndClaim', { queue: 'q', ids, atOnce: 50 }, { patience: 120_000 }),
    ),
  )
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)

  const total = (of: (each: Done) => number) => done.reduce((sum, each) => sum + of(each), 0)
  print(`${ids.length} items cancelled, ${total(({ claimed }) => claimed)} claims, in ${seconds} s`)
  expect(total(({ cancelled }) => cancelled)).toBe(ids.length)
  expect(
    done.flatMap(({ refused }) => Object.keys(refused)).filter((code) => code !== 'ILLEGAL_MOVE'),
  ).toEqual([])
  expect(await hf.queue('q').stats()).toMatchObject({ cancelled: ids.length, pending: 0, processing: 0 })
  await Promise.all(racers.map((racer) => racer.ask('rest')))
  expect((await countDeadlocks(store)) - deadlocksBefore).toBe(0)
})

test('a handler that computes for 2 s does not hold up the claims of another process [X6]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  const [busy, racer] = await Promise.all([openActor(store, { agent: 'busy' }), openRacer(store, 'racer')])
  await hf.queue('q').addMany(numbered(500))
  await racer.ask('claim', { queue: 'q', count: 20 })

  const alone = await racer.ask<number[]>('claim', { queue: 'q', count: 100 })
  await busy.ask('work', { queue: 'q', each: true, blockMs: 2000 })
  await busy.told('handling')
  const beside = await racer.ask<number[]>('claim', { queue: 'q', count: 100 })

  const [p99Alone, p99Beside] = [quantile(alone, 0.99), quantile(beside, 0.99)]
  print(`claim p99 alone ${p99Alone.toFixed(1)} ms, beside a busy process ${p99Beside.toFixed(1)} ms`)
  // 50 ms is the promise; where the machine itself is slower than that, it is the machine that is measured.
  expect(p99Beside).toBeLessThan(Math.max(50, 5 * p99Alone))
})

interface Done {
  readonly cancelled: number
  readonly claimed: number
  readonly refused: Readonly<Record<string, number>>
}

async function openRacer(store: string, agent: string): Promise<Actor> {
  const racer = await startActor('racer')
  await racer.ask('open', { store, agent })
  return racer
}

/** Sessions tell what they counted when they end or are idle for a second. */
async function countDeadlocks(store: string): Promise<number> {
  const sql = 'select deadlocks::int from pg_stat_database where datname = current_database()'
  return (await own.query<{ deadlocks: number }>(store, sql))[0]?.deadlocks ?? Number.NaN
}

/** Processes that share a temporary folder see each other's marks, as those of one machine do. */
function newMachine(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-machine-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function openActorOn(machine: string, store: string, options: ActorOptions = {}): Promise<Actor> {
  const actor = await startProgram('actor', { env: { TMPDIR: machine } })
  await actor.ask('open', { store, ...options })
  return actor
}
