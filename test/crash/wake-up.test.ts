/** What happens in one process reaches the others at once. */
import { spawn, spawnSync } from 'node:child_process'
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { expect, test } from 'vitest'
import {
  Actor,
  claimBy,
  newStore,
  openActor,
  openHere,
  print,
  program,
  quantile,
  runCli,
  until,
  warmUp,
} from './support.ts'

function bellsOf(store: string): string[] {
  return readdirSync(`${store}-bells`).map((name) => `${store}-bells/${name}`)
}

const canMount = spawnSync('unshare', ['--mount', 'true']).status === 0

test("a cancel from another process fires the holder's signal within a second [X6] [Q20] [S5-26]", async () => {
  const store = newStore()
  const hf = await openHere(store)
  const queue = hf.queue('q')
  const holder = await openActor(store)
  await warmUp(hf, holder)
  const delays: number[] = []

  for (let round = 0; round < 5; round++) {
    await queue.add({ round })
    const { id, token } = await claimBy(holder, 'q')
    const cancelledAt = performance.now()
    await queue.cancel(id)
    const { code, at } = await holder.told('aborted', ({ item }) => item === id)
    delays.push(at - cancelledAt)
    expect(code).toBe('LEASE_LOST')
    const late = await holder.askRefusal('complete', { queue: 'q', item: id, token })
    expect(late.code).toBe('LEASE_LOST')
  }

  print(`told of a cancel after ${delays.map(Math.round).join(', ')} ms`)
  expect(Math.max(...delays)).toBeLessThan(1000)
  expect(await queue.stats()).toMatchObject({ cancelled: 5, processing: 0 })
})

test('a worker idle in another process picks up a new item at once [X6]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const queue = hf.queue('q')
  const worker = await openActor(store)
  await worker.ask('work', { queue: 'q', each: true })
  const measure = async () => {
    const delays: number[] = []
    for (let round = 0; round < 100; round++) {
      const addedAt = performance.now()
      const { item } = await queue.add({ round })
      const { at } = await worker.told('handling', (message) => message.item === item.id)
      delays.push(at - addedAt)
      // The worker asked for the next item in the transaction that completed this one, and found none.
      await until('the worker is idle again', async () => (await queue.get(item.id))?.phase === 'closed')
    }
    const [p50, p99] = [quantile(delays, 0.5), quantile(delays, 0.99)]
    print(`from add to handler in another process: p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`)
    return p99
  }

  // A busy machine may be late a few times; a worker that polls is late every time.
  const p99s = [await measure()]
  while (Math.min(...p99s) >= 250 && p99s.length < 3) p99s.push(await measure())

  expect(Math.min(...p99s)).toBeLessThan(250)
})

test.each(['removed', 'replaced', 'removed with their folder'])(
  'after the bell files were %s, others still learn of new items [S5c-11] [S5e-7]',
  async (how) => {
    const store = newStore()
    const hf = await openHere(store)
    const queue = hf.queue('q')
    const worker = await openActor(store)
    await worker.ask('work', { queue: 'q', each: true, pollEveryMs: 600_000 })
    const first = await queue.add('before')
    await worker.told('handling', ({ item }) => item === first.item.id)
    await until('the worker is idle', async () => (await queue.stats()).processing === 0)

    for (const bell of bellsOf(store)) {
      if (how === 'removed') rmSync(bell)
      if (how !== 'replaced') continue
      writeFileSync(`${store}-other`, '')
      renameSync(`${store}-other`, bell)
    }
    if (how === 'removed with their folder') rmSync(`${store}-bells`, { recursive: true })

    // One that comes later finds the new files, and rings there; one that was there before has to find them too.
    const late = await openActor(store)
    for (const add of [
      () => late.ask<{ item: { id: string } }>('add', { queue: 'q', payload: 1 }),
      () => queue.add(2),
    ]) {
      const { item } = await add()
      await worker.told('handling', (message) => message.item === item.id)
    }
    await late.ask('work', { queue: 'other', each: true, pollEveryMs: 600_000 })
    const { item } = await hf.queue('other').add('work')
    await late.told('handling', (message) => message.item === item.id)
  },
)

test('commands that each ring once keep the bell files short [S5c-11]', async () => {
  const store = newStore()
  await runCli(store, 'queue', 'add', 'q', '1')
  const rung = bellsOf(store).filter((bell) => statSync(bell).size > 0)
  for (const bell of rung) writeFileSync(bell, '.'.repeat(70_000))

  await runCli(store, 'queue', 'add', 'q', '2')

  expect(rung.length).toBeGreaterThan(0)
  for (const bell of rung) expect(statSync(bell).size).toBeLessThan(1024)
})

test.runIf(canMount)('a bell file that cannot be written costs no descriptors [S5c-11]', async () => {
  const store = newStore()
  await runCli(store, 'queue', 'add', 'q', '1')
  const script = 'for bell in "$1"/*; do mount --bind /dev/full "$bell" || exit 1; done; exec "$0" "$2"'
  const args = ['--mount', 'sh', '-c', script, process.execPath, `${store}-bells`, program('actor')]
  const actor = new Actor(spawn('unshare', args, { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] }))
  await actor.told('ready')
  await actor.ask('open', { store })
  const add = () => actor.ask('add', { queue: 'q', payload: 'work' })
  await add()
  const before = readdirSync(`/proc/${actor.pid}/fd`).length

  for (let time = 0; time < 20; time++) await add()

  expect(readdirSync(`/proc/${actor.pid}/fd`).length).toBeLessThan(before + 10)
})

test.each(['-bells', '-turn'])(
  'a link, a folder or a pipe at %s is left alone, and work continues [S5c-11]',
  async (end) => {
    const store = newStore()
    const precious = `${store}-precious`
    writeFileSync(precious, 'x'.repeat(70_000))
    const obstacles = [
      () => symlinkSync(precious, `${store}${end}`),
      () => mkdirSync(`${store}${end}`),
      () => spawnSync('mkfifo', [`${store}${end}`]),
    ]

    for (const place of obstacles) {
      rmSync(`${store}${end}`, { recursive: true, force: true })
      place()
      const actors = await Promise.all([openActor(store), openActor(store)])
      await Promise.all(
        actors.map(async (actor) => {
          for (let time = 0; time < 10; time++) await actor.ask('add', { queue: 'q', payload: time })
        }),
      )
      await Promise.all(actors.map((actor) => actor.ask('close')))
    }

    expect(readFileSync(precious, 'utf8')).toBe('x'.repeat(70_000))
  },
)
