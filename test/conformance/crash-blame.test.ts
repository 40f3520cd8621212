/** A crash alone blames no item: neighbours are exposed, suspects run one at a time, and only one item is blamed. */
import type { Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { type Machine, machine } from '../support/processes.ts'
import { forEachEngine, type Opened } from '../support/stores.ts'

const workerPid = 101

forEachEngine((engine) => {
  test('the neighbours of a lost item are exposed, run again at once, and are blamed for nothing [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    const ids = await fleet.add(5)

    await fleet.crashHolding(5)

    const items = await fleet.items(ids)
    expect(items).toMatchObject(
      ids.map(() => ({ phase: 'ready', crashes: 0, exposures: 1, suspectedAt: null })),
    )
    expect((await fleet.hf.queue('jobs').events(ids[0] as string)).at(-1)).toMatchObject({
      kind: 'item.reclaimed',
      detail: { blame: 'exposed' },
    })
  })

  test('an item alone in its process is blamed for its crash [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    const ids = await fleet.add(1)

    await fleet.crashHolding(1)

    expect(await fleet.items(ids)).toMatchObject([{ phase: 'ready', crashes: 1, exposures: 0 }])
  })

  test('two handles of one process are one process: items each held alone were not alone [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    const ids = await fleet.add(2)
    const [first, second] = await Promise.all([fleet.openWorker(), fleet.openWorker()])
    await claimed(first.queue('jobs').next())
    await claimed(second.queue('jobs').next())

    await fleet.kill()

    expect(await fleet.items(ids)).toMatchObject([
      { crashes: 0, exposures: 1 },
      { crashes: 0, exposures: 1 },
    ])
  })

  test('the last item of a process that is recovered in several transactions was not alone either [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    const ids = await fleet.add(101)

    await fleet.crashHolding(101)

    const items = await fleet.items(ids)
    expect(items.filter(({ exposures }) => exposures === 1)).toHaveLength(101)
    expect(items.filter(({ crashes }) => crashes > 0)).toEqual([])
  })

  test('the last item of a frozen process to lapse was not alone [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    const ids = await fleet.add(2)
    const worker = await fleet.openWorker()
    await claimed(worker.queue('jobs').next({ leaseMs: 20_000 }))
    await claimed(worker.queue('jobs').next({ leaseMs: 60_000 }))

    fleet.host.freeze(workerPid)
    await fleet.env.advance(30_000)
    const between = await fleet.items(ids)
    await fleet.env.advance(60_000)

    expect(between).toMatchObject([{ phase: 'ready', exposures: 1 }, { phase: 'held' }])
    expect(await fleet.items(ids)).toMatchObject([
      { phase: 'ready', crashes: 0, exposures: 1 },
      { phase: 'ready', crashes: 0, exposures: 1 },
    ])
  })

  test('the last task of a lost process, taken over by name, was not alone [S5-1]', async () => {
    const { env, store } = await engine.open({ background: false })
    const host = machine(env)
    const open = (agent: string, pid: number) =>
      store.open({ agent, environment: host.process(pid), recovery: false })
    const [worker, rescuer] = [await open('worker', workerPid), await open('rescuer', 1)]
    const tasks = [await rescuer.tasks.addTask('one'), await rescuer.tasks.addTask('two')]
    for (const { id } of tasks) await worker.tasks.claimTaskForAgent(id)

    host.freeze(workerPid)
    await env.advance(61_000)
    for (const { id } of tasks) await rescuer.tasks.claimTaskForAgent(id)

    const items = await Promise.all(tasks.map(({ id }) => rescuer.queue('tasks').get(id)))
    expect(items).toMatchObject(tasks.map(() => ({ phase: 'held', crashes: 0, exposures: 1 })))
  })

  test('items still held by a process that ended cleanly are not blamed [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    const ids = await fleet.add(1)
    const worker = await fleet.openWorker()
    await claimed(worker.queue('jobs').next())
    const { bootId, hostName, pidNamespace } = fleet.env.host.identity
    const { instances } = (await fleet.hf.execute('instance.list', {
      machine: { bootId, hostName, pidNamespace },
      otherBoots: false,
    })) as { instances: { id: string; pid: number }[] }
    const own = instances.find(({ pid }) => pid === workerPid)?.id

    fleet.host.freeze(workerPid)
    await fleet.hf.execute('instance.end', { id: own as string, reason: 'closed' }, { agent: 'worker' })
    await fleet.env.advance(61_000)

    expect(await fleet.items(ids)).toMatchObject([{ phase: 'ready', crashes: 0, exposures: 0 }])
  })

  test('an item exposed twice is a suspect; a process takes one suspect at a time, beside other work [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    await fleet.add(3)
    await fleet.crashHolding(3)
    await fleet.crashHolding(3)
    const [plain] = await fleet.add(1)
    const queue = (await fleet.openWorker()).queue('jobs')

    const many = await queue.claimMany(10)
    const meanwhile = await queue.next()
    const items = many.outcome === 'claimed' ? many.items.map(({ item }) => item) : []
    const suspect = items.find(({ suspectedAt }) => suspectedAt !== null)
    await queue.complete(suspect?.id as string)
    const next = await claimed(queue.next())

    expect(items).toHaveLength(2)
    expect(items.map(({ id }) => id)).toContain(plain)
    expect(meanwhile.outcome).toBe('empty')
    expect(next.item).toMatchObject({ suspectedAt: expect.any(Number) })
  })

  test('another handle of the same process gets no second suspect; another process does [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    await fleet.add(2)
    await fleet.crashHolding(2)
    await fleet.crashHolding(2)
    const [one, two, elsewhere] = await Promise.all([
      fleet.openWorker(),
      fleet.openWorker(),
      fleet.openWorker(workerPid + 1),
    ])
    await claimed(one.queue('jobs').next())

    const second = await two.queue('jobs').next()
    const other = await elsewhere.queue('jobs').next()

    expect([second.outcome, other.outcome]).toEqual(['empty', 'claimed'])
  })

  test('concurrent claims from two queues through two handles get a process one suspect [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    await fleet.add(2)
    await fleet.hf.queue('others', { maxCrashes: 3 }).add('other')
    for (let crash = 0; crash < 2; crash++) {
      const worker = await fleet.openWorker()
      await worker.queue('jobs').claimMany(2)
      await claimed(worker.queue('others').next())
      await fleet.kill()
    }
    const [one, two] = await Promise.all([fleet.openWorker(), fleet.openWorker()])

    const answers = await Promise.all([
      one.queue('others').claimMany(1),
      one.queue('jobs').next(),
      two.queue('jobs').claimMany(1),
    ])

    expect(answers.map(({ outcome }) => outcome).toSorted()).toEqual(['claimed', 'empty', 'empty'])
  })

  test('the next suspect is claimed together with the completion of the last [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    await fleet.add(2)
    await fleet.crashHolding(2)
    await fleet.crashHolding(2)
    const queue = (await fleet.openWorker()).queue('jobs')
    const { item } = await claimed(queue.next())

    const [, next] = await Promise.all([queue.complete(item.id), queue.next()])

    expect(next.outcome).toBe('claimed')
  })

  test('a damaged suspect does not block the one behind it [S5-1] [Q13]', async () => {
    const opened = await engine.open({ background: false })
    const fleet = await openFleet(opened)
    const [broken = '', sound] = await fleet.add(2)
    await fleet.crashHolding(2)
    await fleet.crashHolding(2)

    await opened.store.damage.garble(broken)

    expect(await fleet.hf.queue('jobs').peek()).toMatchObject({ id: sound })
    expect((await claimed((await fleet.openWorker()).queue('jobs').next())).item.id).toBe(sound)
  })

  test('a suspect can always be claimed by hand [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    await fleet.add(3)
    await fleet.crashHolding(3)
    await fleet.crashHolding(3)

    const byHand = await fleet.hf.queue('jobs').claimMany(10, { agent: 'a-person' })

    expect(byHand.outcome === 'claimed' && byHand.items).toHaveLength(3)
  })

  test('the suspect alone is blamed for the crash of its process, the others are exposed [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    const [poison] = await fleet.add(1, { priority: 0 })
    const others = await fleet.add(2)
    await fleet.crashHolding(3)
    await fleet.crashHolding(3)
    const fresh = await fleet.add(4)

    await fleet.crashHolding(5)

    expect(await fleet.items([poison as string])).toMatchObject([{ phase: 'suspect', crashes: 1 }])
    expect(await fleet.items(fresh)).toMatchObject(fresh.map(() => ({ crashes: 0, exposures: 1 })))
    expect(await fleet.items(others)).toMatchObject(others.map(() => ({ crashes: 0, exposures: 2 })))
  })

  test('a suspect that finishes is cleared; one that comes back after a failure is in line again [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    const ids = await fleet.add(2)
    await fleet.crashHolding(2)
    await fleet.crashHolding(2)
    const queue = (await fleet.openWorker()).queue('jobs')
    const { item } = await claimed(queue.next())

    await queue.fail(item.id, 'handled', { backoff: { baseMs: 0, factor: 1, maxMs: 0 } })
    await fleet.env.advance(10)
    await queue.next()

    const [failed] = await fleet.items([item.id])
    expect(ids).toContain(item.id)
    expect(failed).toMatchObject({ exposures: 0, suspectedAt: null })
  })

  test('a suspect can be found by name, in lists and in counts, and is explained [S5-1]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    const ids = await fleet.add(2)
    await fleet.crashHolding(2)
    await fleet.crashHolding(2)

    const { items } = await fleet.hf.queue('jobs').list({ phase: 'suspect' })
    const explained = await fleet.hf.fleet.explain(ids[0] as string)

    expect(items.map(({ id }) => id)).toEqual(ids)
    expect(await fleet.hf.queue('jobs').stats()).toMatchObject({
      pending: 2,
      total: 2,
      oldestReadyMs: expect.any(Number),
    })
    expect(await fleet.hf.queue('jobs').peek()).toMatchObject({ id: ids[0] })
    expect(explained.evidence).toContain('suspected of killing its holders')
  })

  test('an item’s own crash is followed by a delay; only new progress clears the crashes [S5-2]', async () => {
    const fleet = await openFleet(await engine.open({ background: false }))
    const [id = ''] = await fleet.add(1)
    const crashAfter = async (progress: unknown) => {
      const worker = await fleet.openWorker()
      await claimed(worker.queue('jobs').next())
      await worker.queue('jobs').progress(id, progress)
      await fleet.kill()
    }

    await crashAfter('started')
    await crashAfter('started')
    const [second] = await fleet.items([id])
    const claim = await fleet.hf.queue('jobs').next({ agent: 'a-person' })
    await fleet.env.advance(5_001)
    await crashAfter('half done')

    expect(second).toMatchObject({ crashes: 2, phase: 'waiting', runAt: expect.any(Number) })
    expect(claim.outcome).toBe('empty')
    expect(await fleet.items([id])).toMatchObject([{ crashes: 1, phase: 'ready', quarantine: null }])
  })
})

interface Fleet {
  readonly hf: Holdfast
  readonly host: Machine
  readonly env: Opened['env']
  add(count: number, options?: { priority?: number }): Promise<string[]>
  items(ids: readonly string[]): Promise<Awaited<ReturnType<ReturnType<Holdfast['queue']>['list']>>['items']>
  /** A handle of a worker process; processes of one pid are one process until it is killed. */
  openWorker(pid?: number): Promise<Holdfast>
  /** A worker process claims so many items at once and dies. */
  crashHolding(count: number): Promise<void>
  /** The worker process dies, and what it held is given back. */
  kill(): Promise<void>
}

/** A process that heals, and workers that come and go. */
async function openFleet({ env, store }: Opened): Promise<Fleet> {
  const host = machine(env)
  const hf = await store.open({ agent: 'healer', environment: host.process(1) })
  const queue = hf.queue('jobs', { maxCrashes: 3 })
  let pid = workerPid
  const fleet: Fleet = {
    hf,
    host,
    env,
    async add(count, options = {}) {
      const items = Array.from({ length: count }, (_, payload) => ({ payload, ...options }))
      const { ids } = await queue.addMany(items)
      await env.advance(1)
      return ids
    },
    items: (ids) =>
      Promise.all(
        ids.map(async (id) => {
          const item = await queue.get(id)
          if (item === null) throw new Error(`item ${id} is gone`)
          return item
        }),
      ),
    openWorker: (own = pid) => store.open({ agent: 'worker', environment: host.process(own) }),
    async crashHolding(count) {
      const worker = await fleet.openWorker()
      let held = 0
      while (held < count) {
        const claim = await worker.queue('jobs').claimMany(Math.min(100, count - held))
        if (claim.outcome !== 'claimed') throw new Error(`only ${held} of ${count} could be claimed`)
        held += claim.items.length
      }
      await fleet.kill()
    },
    async kill() {
      host.kill(pid)
      host.freeze(pid)
      pid += 1_000
      await env.advance(2_000)
    },
  }
  return fleet
}
