/** A path that was given as relative means one place for as long as the store is open, wherever its process goes. */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { copyStore, type Holdfast, type Lease, type OpenOptions } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { expect, onTestFinished, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { isRenewed, newStore, openHere, seeHealing } from './support.ts'

const options: OpenOptions = { leaseMs: 3000, recovery: { onClaim: false, everyMs: 100 } }

test.each(['./store.db', 'sqlite:store.db'])(
  'a process that changes its folder keeps what it holds in %s, even with a new thread [S5b-5]',
  async (url) => {
    const elsewhere = standIn()
    const thread = new Promise<Worker>((resolve) => process.once('worker', resolve))
    const hf = await openHere(url, options)

    process.chdir(elsewhere)
    const leases = [await claimUntilRenewed(hf)]
    const next = new Promise<Worker>((resolve) => process.once('worker', resolve))
    ;(await thread).postMessage('stop')
    await next
    // On a very busy machine a thread takes longer to load than the lease lasts.
    await seeHealing(hf)
    leases.push(await claimUntilRenewed(hf))

    expect(leases.at(-1)?.isHeld).toBe(true)
    expect(readdirSync(elsewhere)).toEqual([])
  },
)

test('a process that changes its folder still exports events to the same file [S5b-5]', async () => {
  const elsewhere = standIn()
  const home = process.cwd()
  const environment = new MovableEnvironment()
  const retention = { eventsMs: 1000, everyMs: 1000, eventsExport: './events.jsonl' }
  const hf = await openHere('./store.db', { environment, retention })
  await hf.queue('q').add('work')

  process.chdir(elsewhere)
  await environment.advance(65_000)

  expect(readFileSync(join(home, 'events.jsonl'), 'utf8')).toContain('queue.created')
  expect(readdirSync(elsewhere)).toEqual([])
})

test('a copy that heals its source first finds it again from another folder [S5b-5]', async () => {
  const elsewhere = standIn()
  const environment = new MovableEnvironment()
  const hf = await openHere('./store.db', { environment, background: false })
  await hf.queue('q').add('work')
  const dead = { ...environment.host.identity, pid: 2 ** 22 + 1, startTime: '1' }
  await hf.execute('instance.start', { id: environment.id(), ...dead })
  await hf.close()

  const copying = copyStore({ from: './store.db', to: './copy.db', environment })
  process.chdir(elsewhere)

  expect(await copying).toMatchObject({ outcome: 'copied' })
  expect(readdirSync(elsewhere)).toEqual([])
})

/** A lease that this process has renewed; in another store there would be none to renew, however long it took. */
async function claimUntilRenewed(hf: Holdfast): Promise<Lease> {
  for (;;) {
    await hf.queue('q').add('work')
    const { item, lease } = await claimed(hf.queue('q').next())
    if (lease && (await isRenewed(hf, item))) return lease
  }
}

/** In an empty folder; answers with another. */
function standIn(): string {
  const home = dirname(newStore())
  const elsewhere = join(dirname(newStore()), 'elsewhere')
  mkdirSync(elsewhere)
  const before = process.cwd()
  onTestFinished(() => process.chdir(before))
  process.chdir(home)
  return elsewhere
}
