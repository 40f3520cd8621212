/** An item for which more items wait than one transaction frees: the rest is freed later, and never too early. */
import { randomUUID } from 'node:crypto'
import type { Holdfast, Workflow } from 'holdfast'
import { expect, test } from 'vitest'
import { type Engine, forEachEngine } from '../support/stores.ts'

/** As many as are freed together with what they wait for. */
const freedAtOnce = 1_000

/** It can be closed without a claim, before which the rest would be freed. */
const workflow: Workflow = {
  name: 'checklist',
  initial: 'open',
  failsRetryably: false,
  retryForgives: false,
  states: {
    open: { claimTo: 'taken', moves: ['done'] },
    taken: { held: true, lostTo: 'open', moves: ['done'], completeTo: 'done' },
    done: { closed: 'well', moves: [] },
  },
}

forEachEngine((engine) => {
  // One test for both promises: what takes time is to add more items than are freed at once, twice.
  test('a blocker closes again and starts over while some wait, and frees nothing too early [S5c-10]', async () => {
    const { hf, change, submit, finish } = await openChange(engine)
    await addBehind(hf, change, freedAtOnce + 1)
    await finish()
    await submit()
    await addBehind(hf, change, freedAtOnce)

    await finish()
    const left = await waiting(hf)
    await submit()
    const { item } = await hf.queue('jobs').add('behind its third life', { blockers: [change] })
    await hf.recovery.detectAndRecoverStale()
    const meanwhile = await waiting(hf)
    await finish()

    expect(left).toHaveLength(1)
    expect(meanwhile.sort()).toEqual([...left, item.id].sort())
    expect(await waiting(hf)).toEqual([])
  })
})

async function openChange(engine: Engine) {
  const { hf } = await engine.open({ background: false, recovery: false })
  const q = hf.queue('changes', { workflow })
  const submit = () => q.submit('w1', { headSha: 'abcd' })
  const { item } = await submit()
  return { hf, change: item.id, submit, finish: () => q.move('w1', 'done') }
}

async function addBehind(hf: Holdfast, blocker: string, count: number): Promise<void> {
  const entries = Array.from({ length: count }, () => ({
    id: randomUUID(),
    state: 'pending',
    blockers: [blocker],
    addedAt: 1,
  }))
  for (let from = 0; from < count; from += 100) {
    const page = entries.slice(from, from + 100)
    await hf.execute('queue.import', { queue: 'jobs', workflow: 'job', from: 'test', entries: page })
  }
}

async function waiting(hf: Holdfast): Promise<string[]> {
  const { items } = await hf.queue('jobs').list({ standing: 'waiting', limit: 500 })
  return items.map(({ id }) => id)
}
