/** A waiting process is woken by other processes for what it waits for, and for nothing else. */
import { spawn, spawnSync } from 'node:child_process'
import { readdirSync, readlinkSync, statSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Actor, newStore, often, openActor, openHere, program, run, startProgram, until } from './support.ts'

const noWatches = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"'
const canLimit = spawnSync('unshare', ['-Ur', 'sh', '-c', noWatches, 'sh', 'true']).status === 0

test('a process has one inotify instance, however many queues it waits for [S5e-7]', async () => {
  const store = newStore()
  await openHere(store)

  const listener = await startProgram('listens', { args: [store, 'first', 'second', 'third'] })

  const open = readdirSync(`/proc/${listener.pid}/fd`).map((fd) => target(`/proc/${listener.pid}/fd/${fd}`))
  expect(open.filter((path) => path.includes('inotify'))).toHaveLength(1)
})

test('a process that waits for two queues is woken by both [S5e-7]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const listener = await startProgram('listens', { args: [store, 'first', 'second'] })

  for (let round = 0; round < 5; round++) {
    for (const queue of ['second', 'first']) {
      await hf.queue(queue).add(round)
      await listener.told('handled', (told) => told.queue === queue && told.payload === round)
    }
  }

  await expectDone(store, 10)
})

test('each of many processes is woken for its own queue, even beyond the user’s limit of watches [S5e-7]', async () => {
  const store = newStore()
  const hf = await openHere(store, { busyTimeoutMs: 20_000 })
  const queues = Array.from({ length: often({ few: 4, many: 150 }) }, (_, number) => `queue-${number}`)
  const listeners: Actor[] = []
  for (const queue of queues) listeners.push(await startProgram('listens', { args: [store, queue] }))

  for (const [index, queue] of queues.entries()) {
    await hf.queue(queue).add(index)
    await listeners[index]?.told('handled', (told) => told.queue === queue && told.payload === index)
  }
}, 240_000)

test('two claims of one process that wait for two queues both get an answer [S5e-7]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const [one, other] = [await openActor(store), await openActor(store)]

  const first = one.ask<{ outcome: string }>('next', { queue: 'first', waitMs: 20_000 })
  const second = one.ask<{ outcome: string }>('next', { queue: 'second', waitMs: 20_000 })
  await other.ask('add', { queue: 'second', payload: 2 })
  const answeredSecond = await second
  await hf.queue('first').add(1)

  expect([answeredSecond, await first]).toMatchObject([
    { item: { queue: 'second' } },
    { item: { queue: 'first' } },
  ])
})

test.each(['ends', 'calls process.exit()'])(
  'items of a program that adds a few and %s at once are picked up at once [S5e-7]',
  async (how) => {
    const store = newStore()
    const listener = await startProgram('listens', { args: [store, 'jobs'] })
    const ending = how === 'ends' ? '' : 'process.exit(0)'
    const script = `
      import { open } from 'holdfast'
      const hf = await open(process.argv[1], { background: false, logger: false })
      for (let number = 0; number < 20; number++) await hf.queue('jobs').add(number)
      ${ending}`

    for (let round = 0; round < often({ few: 2, many: 5 }); round++) {
      const { code } = await run(process.execPath, ['--input-type=module', '-e', script, store])
      expect(code).toBe(0)
      await listener.told('handled', ({ payload }) => payload === 19)
    }
  },
)

test('a single command that adds and exits wakes the waiter [S5e-7]', async () => {
  const store = newStore()
  const listener = await startProgram('listens', { args: [store, 'jobs'] })
  const cli = new URL('../../dist/cli/main.js', import.meta.url).pathname

  for (let round = 0; round < 3; round++) {
    const args = [cli, '--store', store, 'queue', 'add', 'jobs', String(round)]
    const { code } = await run(process.execPath, args)
    expect(code).toBe(0)
    await listener.told('handled', ({ payload }) => payload === round)
  }
})

test('a busy queue rings at most every ten milliseconds, and rings no bell of another queue [S5e-7]', async () => {
  const store = newStore()
  const hf = await openHere(store, { durability: 'normal' })
  await hf.queue('busy').add('first')
  const sizes = () => readdirSync(`${store}-bells`).map((bell) => statSync(`${store}-bells/${bell}`).size)
  const before = sizes()
  const startedAt = performance.now()

  for (let number = 0; number < 500; number++) await hf.queue('busy').add(number)

  const tookMs = performance.now() - startedAt
  const rings = sizes().map((size, bell) => size - (before[bell] as number))
  // The queue and the feed.
  expect(rings.filter((count) => count > 0)).toHaveLength(2)
  expect(Math.max(...rings)).toBeLessThanOrEqual(tookMs / 10 + 2)
})

test.runIf(canLimit)('without a watch it logs so once, and items are still picked up [S5e-7]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const args = [
    '-Ur',
    'sh',
    '-c',
    noWatches,
    'sh',
    process.execPath,
    program('listens'),
    store,
    'jobs',
    'more',
  ]
  const listener = new Actor(spawn('unshare', args, { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] }))
  await listener.told('ready')
  const logged: string[] = []
  listener.child.on('message', ({ type, name }: { type: string; name: string }) => {
    if (type === 'logged') logged.push(name)
  })
  await listener.told('logged', ({ name }) => name === 'wake.degraded')

  for (const queue of ['jobs', 'more', 'jobs', 'more']) {
    await hf.queue(queue).add(queue)
    await listener.told('handled', (told) => told.queue === queue)
  }

  expect(logged).toEqual([])
})

async function expectDone(store: string, count: number): Promise<void> {
  const hf = await openHere(store)
  const done = async () =>
    (await Promise.all(['first', 'second'].map((queue) => hf.queue(queue).stats()))).reduce(
      (sum, { completed }) => sum + completed,
      0,
    )
  await until('all are completed', async () => (await done()) === count)
}

function target(link: string): string {
  try {
    return readlinkSync(link)
  } catch {
    return ''
  }
}
