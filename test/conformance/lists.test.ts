/** Lists find every matching item, whatever phase it is in. */
import type { ListOptions, Queue, QueueItem } from 'holdfast'
import { expect, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { isQuick } from '../support/quick.ts'
import { forEachEngine } from '../support/stores.ts'

const leaseMs = 1_000

forEachEngine((engine) => {
  test('a list with any options returns all items that match, page by page [S5e-3]', async () => {
    const { hf, env, store } = await engine.open({ background: false })
    const jobs = hf.queue('jobs', { maxAttempts: 1, maxCrashes: 1 })
    for (let number = 0; number < 12; number++) await jobs.add(number, { priority: number % 3 })
    await jobs.add('delayed', { runAt: env.now() + 3_600_000 })
    await end(jobs, 'crash')
    const { item: lost } = await claimed(jobs.next({ renew: false, leaseMs }))
    await store.damage.misplace(lost.id)
    await env.advance(leaseMs + 1)
    await jobs.detectAndRecoverStale()
    for (const ending of ['done', 'failed', 'done', 'failed', 'cancelled'] as const) await end(jobs, ending)
    await jobs.claimMany(2, { renew: false })

    const { items: all } = await jobs.list({ limit: 1000 })
    const states = [...new Set(all.map(({ state }) => state))]

    const wrong: unknown[] = []
    for (const options of combinations(states)) {
      const expected = all.filter((item) => isWanted(item, options)).map(({ id }) => id)
      for (const limit of isQuick ? [1] : [1, 1000]) {
        const found = await pages(jobs, { ...options, limit })
        if (JSON.stringify(found) !== JSON.stringify(expected)) wrong.push({ ...options, limit })
      }
    }
    expect(states.toSorted()).toEqual(['a state of old', 'cancelled', 'done', 'failed', 'pending', 'running'])
    expect(wrong).toEqual([])
  })

  /** Claims one and lets it end. */
  async function end(jobs: Queue, ending: 'done' | 'failed' | 'cancelled' | 'crash') {
    const { item } = await claimed(jobs.next({ renew: false, leaseMs }))
    if (ending === 'done') await jobs.complete(item.id)
    if (ending === 'failed') await jobs.fail(item.id, 'no', { retryable: false })
    if (ending === 'cancelled') await jobs.cancel(item.id)
  }
})

function combinations(states: readonly string[]): ListOptions[] {
  const pairs = states.flatMap((one, at) => states.slice(at).map((other) => [one, other]))
  const named = [
    undefined,
    [],
    ['no such state'],
    ...states.map((state) => ['no such state', state]),
    ...pairs,
  ]
  const phases = [undefined, 'ready', 'suspect', 'waiting', 'held', 'closed'] as const
  return [...named, states].flatMap((wanted) =>
    phases.flatMap((phase) =>
      [undefined, true, false].map((quarantined) => ({
        ...(wanted && { states: wanted }),
        ...(phase && { phase }),
        ...(quarantined === undefined ? {} : { quarantined }),
      })),
    ),
  )
}

function isWanted(item: QueueItem<unknown>, { states, phase, quarantined }: ListOptions): boolean {
  return (
    (states === undefined || states.includes(item.state)) &&
    (phase === undefined || item.phase === phase) &&
    (quarantined === undefined || (item.quarantine !== null) === quarantined)
  )
}

async function pages(queue: Queue, options: ListOptions): Promise<string[]> {
  const ids: string[] = []
  for (let after: string | undefined; ; ) {
    const page = await queue.list({ ...options, ...(after === undefined ? {} : { after }) })
    ids.push(...page.items.map(({ id }) => id))
    if (page.next === null) return ids
    after = page.next
  }
}
