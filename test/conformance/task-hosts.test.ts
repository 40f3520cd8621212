/** Tasks that belong on a machine, and how many a machine may hold. */
import type { Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import { machine } from '../support/processes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

forEachEngine((engine) => {
  test('a task claimed by hand counts for the machine it is claimed on [S5c-45]', async () => {
    const { byHand, workshop, attic } = await openMachines(engine)
    await addTasks(byHand, 6)
    await claimedTask(byHand.tasks.claimNext({ maxPerHost: 1 }))

    const again = await byHand.tasks.claimNext({ maxPerHost: 1 })
    const bound = await workshop.tasks.claimNext({ maxPerHost: 1 })
    const elsewhere = await attic.tasks.claimNext({ maxPerHost: 1 })
    const second = await workshop.tasks.claimNext({ maxPerHost: 2 })
    const third = await byHand.tasks.claimNext({ maxPerHost: 2 })

    const full = (holds: number) => ({ outcome: 'full', holds })
    expect([again, bound, third]).toEqual([full(1), full(1), full(2)])
    expect([elsewhere.outcome, second.outcome]).toEqual(['claimed', 'claimed'])
  })

  test('processes of a machine that claim at the same time stay within its limit [S5c-45]', async () => {
    const { byHand, workshop, attic } = await openMachines(engine)
    await addTasks(byHand, 12)

    const here = [byHand, workshop].flatMap((hf) =>
      [1, 2, 3, 4].map(() => hf.tasks.claimNext({ maxPerHost: 3 })),
    )
    const there = attic.tasks.claimNext({ maxPerHost: 3 })
    const outcomes = (await Promise.all(here)).map(({ outcome }) => outcome)

    expect(outcomes.sort()).toEqual([...Array(3).fill('claimed'), ...Array(5).fill('full')])
    expect((await there).outcome).toBe('claimed')
  })

  test('a task claimed for another agent counts for no machine [S5c-45]', async () => {
    const { byHand } = await openMachines(engine)
    await addTasks(byHand, 3)
    await claimedTask(byHand.tasks.claimNext({ agent: 'elsewhere' }))

    const own = await claimedTask(byHand.tasks.claimNext({ maxPerHost: 1 }))
    const forAnother = await byHand.tasks.claimNext({ agent: 'elsewhere', maxPerHost: 1 })
    await byHand.tasks.releaseTask(own.task.id)

    expect(forAnother.outcome).toBe('claimed')
    expect((await byHand.queue('tasks').stats()).byState).toMatchObject({ todo: 1, in_progress: 2 })
  })

  test('a limit counts for the machine of a registered process, whoever claims for it [S5c-45]', async () => {
    const { workshop, attic } = await openMachines(engine)
    await addTasks(attic, 3)
    await attic.agents.register({ agent: 'coder', pid: 201 })
    await claimedTask(attic.tasks.claimNext())

    const forCoder = await workshop.tasks.claimNext({ agent: 'coder', maxPerHost: 1 })

    expect(forCoder).toEqual({ outcome: 'full', holds: 1 })
  })

  test('the next task never belongs to another machine, unless any is accepted [S5c-48]', async () => {
    const { byHand, workshop, attic } = await openMachines(engine)
    await byHand.tasks.addTask('attic first', { host: 'attic', priority: 0, key: 'A' })
    await byHand.tasks.addTask('anywhere', { priority: 5, key: 'N' })
    await byHand.tasks.addTask('workshop last', { host: 'workshop', priority: 9, key: 'W' })
    const key = async (claim: ReturnType<Holdfast['tasks']['claimNext']>) => {
      const claimed = await claim
      return claimed.outcome === 'claimed' ? claimed.task.key : claimed.outcome
    }

    const taken = [
      await key(workshop.tasks.claimNext()),
      await key(byHand.tasks.claimNext({ agent: 'somebody' })),
      await key(workshop.tasks.claimNext()),
      await key(workshop.tasks.claimNext({ anyHost: true })),
    ]
    await workshop.tasks.releaseTask('A')
    taken.push(await key(attic.tasks.claimNext()))

    expect(taken).toEqual(['N', 'W', 'empty', 'A', 'A'])
  })

  test('a claim that names a host, or the task itself, gets it anywhere [S5c-48]', async () => {
    const { workshop } = await openMachines(engine)
    const keys = ['by host', 'by name', 'in a batch']
    for (const key of keys) await workshop.tasks.addTask(key, { key, host: 'cellar' })

    const byHost = await workshop.tasks.claimNext({ host: 'cellar' })
    const byName = await workshop.tasks.claimTaskForAgent('by name')
    const batch = await workshop.tasks.batchClaim(['in a batch'])

    expect([byHost, byName, batch].map(({ outcome }) => outcome)).toEqual(['claimed', 'claimed', 'claimed'])
  })

  test('a claim from a machine without a name gets only tasks that belong to no machine [S5c-48]', async () => {
    const { store, env, workshop } = await openMachines(engine)
    const nameless = await store.open({ environment: machine(env, { hostName: '' }).process(301) })
    await workshop.tasks.addTask('elsewhere', { host: 'attic', priority: 0 })
    await workshop.tasks.addTask('anywhere', { key: 'N' })

    const first = await nameless.tasks.claimNext({ maxPerHost: 1 })
    const second = await nameless.tasks.claimNext()

    expect(first).toMatchObject({ outcome: 'claimed', task: { key: 'N' } })
    expect(second.outcome).toBe('empty')
  })

  test('an offer respects the task’s machine too [S5c-48]', async () => {
    const { workshop, attic } = await openMachines(engine)
    await workshop.tasks.addTask('moved', { key: 'M', host: 'workshop' })
    await claimedTask(workshop.tasks.claimNext())
    await workshop.tasks.handoff({ to: 'roofer' })

    const away = await attic.tasks.claimNext()
    const anyway = await attic.tasks.claimNext({ anyHost: true })

    expect([away.outcome, anyway.outcome]).toEqual(['empty', 'claimed'])
  })

  test('prime shows an agent that starts the tasks it would get [S5c-48]', async () => {
    const { workshop, attic } = await openMachines(engine)
    await workshop.tasks.addTask('up there', { key: 'A', host: 'attic' })
    await workshop.tasks.addTask('anywhere', { key: 'N' })

    const pages = await Promise.all([workshop, attic].map((hf) => hf.fleet.prime()))

    expect(pages.map(({ tasks }) => tasks.map(({ key }) => key))).toEqual([['N'], ['A', 'N']])
  })

  test('a ready task whose machine has no running process is named [S5c-48]', async () => {
    const { workshop, attic } = await openMachines(engine)
    await workshop.tasks.addTask('sort the coal', { key: 'C', host: 'cellar' })
    await workshop.tasks.addTask('mend the roof', { key: 'A', host: 'attic' })
    await workshop.tasks.addTask('anywhere', { key: 'N' })
    const named = async () => {
      const { findings } = await workshop.fleet.doctor()
      return findings.filter(({ check }) => check === 'hosts').map(({ what }) => what.replace(/^.*: /, ''))
    }
    const verdicts = async () => {
      const told = await Promise.all(['C', 'A', 'N'].map((key) => workshop.fleet.explain(key)))
      return told.map(({ verdict }) => verdict)
    }

    const before = [await named(), await verdicts()]
    await attic.close()
    const after = [await named(), await verdicts()]

    expect(before).toEqual([['C sort the coal (on cellar)'], ['stuck', 'ready', 'ready']])
    expect(after).toEqual([
      ['C sort the coal (on cellar), A mend the roof (on attic)'],
      ['stuck', 'stuck', 'ready'],
    ])
  })
})

/** Two machines of a fleet, and somebody on the first who claims by hand. */
async function openMachines(engine: Engine) {
  const { env, store } = await engine.open({ background: false })
  const [here, there] = [machine(env, { hostName: 'workshop' }), machine(env, { hostName: 'attic' })]
  const open = (agent: string, environment = here.process(101)) => store.open({ agent, environment })
  return {
    workshop: await open('smith'),
    attic: await open('roofer', there.process(201)),
    byHand: await store.open({ agent: 'hand', environment: here.process(102), background: false }),
    env,
    store,
  }
}

async function addTasks(hf: Holdfast, count: number): Promise<void> {
  for (let number = 0; number < count; number++) await hf.tasks.addTask(`task ${number}`)
}
