/** Containers that share a kernel and a disk with us but not the boot id, or not the clocks: made of real namespaces. */
import { spawn, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import {
  Actor,
  claimBy,
  isRenewed,
  newStore,
  openActor,
  openHere,
  program,
  reclaimOf,
  run,
} from './support.ts'

const canMount = spawnSync('unshare', ['--mount', 'true']).status === 0
const canShiftTime = spawnSync('unshare', ['--time', '--fork', 'true']).status === 0

test.runIf(canMount)('a live process with its own boot id keeps what it holds [S5b-3]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  await hf.queue('q').addMany([{ payload: 'inside' }, { payload: 'outside' }])
  const inside = await startInContainer(dirname(store))
  await inside.ask('open', { store, agent: 'inside', leaseMs: 6000 })
  const kept = await claimBy(inside, 'q')
  const outside = await openActor(store, { agent: 'outside' })
  const lost = await claimBy(outside, 'q')

  outside.kill()
  await reclaimOf(hf, lost.id)

  // The look that found the dead one has seen the living one too.
  expect(await isRenewed(hf, kept)).toBe(true)
  expect(await hf.agents.list()).toContainEqual(
    expect.objectContaining({ agent: 'inside', liveness: 'unknown' }),
  )
})

test.runIf(canShiftTime)('a process with shifted clocks judges leases as all others do [S5b-3]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  await hf.queue('q').add('work')

  const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
  const { stdout } = await run('unshare', [
    ...['--time', '--monotonic', '86400', '--boottime', '86400', '--fork'],
    ...[process.execPath, main, 'queue', 'next', 'q', '--lease', '60s', '--store', store, '--json'],
  ])

  const { item } = JSON.parse(stdout)
  const remainingMs = (await hf.queue('q').get(item.id))?.lease?.remainingMs
  expect(remainingMs).toBeLessThanOrEqual(60_000)
  expect(remainingMs).toBeGreaterThan(0)
})

test.runIf(canMount)('a process that sees no boot id works, and is not judged by a pid [S5b-4]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  await hf.queue('q').addMany([{ payload: 'inside' }, { payload: 'outside' }])
  const inside = await startUnder('mount -t tmpfs none /proc/sys/kernel/random')
  await inside.ask('open', { store, agent: 'inside' })
  const item = await claimBy(inside, 'q', { leaseMs: 6000 })

  expect(await isRenewed(hf, item)).toBe(true)
  const [seen] = (await hf.agents.list()).filter(({ agent }) => agent === 'inside')
  expect(seen).toMatchObject({ bootId: 'unknown boot', liveness: 'unknown' })
})

/** As LXC and systemd-nspawn do it: a file of its own is mounted over the kernel's. */
function startInContainer(folder: string): Promise<Actor> {
  const bootId = join(folder, 'boot-id')
  writeFileSync(bootId, '00000000-0000-4000-8000-000000000000\n')
  return startUnder(`mount --bind "${bootId}" /proc/sys/kernel/random/boot_id`)
}

/** In a mount namespace of its own, where this was done first. */
async function startUnder(mount: string): Promise<Actor> {
  const args = ['--mount', 'sh', '-c', `${mount} && exec "$0" "$1"`, process.execPath, program('actor')]
  const child = spawn('unshare', args, { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] })
  const actor = new Actor(child)
  await actor.told('ready')
  return actor
}
