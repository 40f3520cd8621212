/** A row nobody can read is set aside: it stays where it is and stops nothing else. */
import { expect, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('a damaged item of a dead process does not keep its other work from being given back [Q13]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'witness' })
    const host = machine(env)
    const worker = await store.open({ agent: 'worker', environment: host.process(7) })
    const watcher = await store.open({ agent: 'watcher', environment: host.process(8) })
    const jobs = hf.queue('jobs')
    const { item: broken } = await jobs.add('broken')
    const { item: sound } = await jobs.add('sound')
    await worker.queue('jobs').claimMany(2)
    await store.damage.garble(broken.id)

    host.kill(7)
    const report = await watcher.recovery.detectAndRecoverStale()

    expect(report.ids).toEqual([sound.id])
    expect((await jobs.get(sound.id))?.standing).toBe('ready')
  })

  test('reports, warnings and handing over go on beside a damaged item', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada', recovery: false })
    const jobs = hf.queue('jobs')
    const { item: broken } = await jobs.add('broken')
    await claimed(jobs.next({ renew: false }))
    const { item: sound } = await jobs.add('sound')
    await claimed(jobs.next({ renew: false }))
    await store.damage.garble(broken.id)
    await env.advance(250_000)

    const { locks } = await hf.recovery.detectStaleLocks()
    const warned = await hf.execute('lease.warnNear', {})
    const taken = await jobs.reclaimStale({ thresholdMs: 1_000 })

    expect(locks.map(({ id }) => id)).toEqual([sound.id])
    expect([warned, taken]).toEqual([1, 1])
  })
})
