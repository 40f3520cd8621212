/** A former holder and its successor, with real leases of one item. */
import type { Grant } from 'holdfast/fences'
import { claimed } from './outcomes.ts'
import type { Engine } from './stores.ts'

export interface Succession {
  readonly resource: string
  /** Of the first lease, which lapsed and was reclaimed. */
  readonly late: Grant
  /** Of the second, which is in force. */
  readonly current: Grant
}

export async function createSuccession(engine: Engine): Promise<Succession> {
  const { hf, env } = await engine.open()
  const queue = hf.queue('work')
  await queue.add('payload')
  const options = { leaseMs: 1000, renew: false }
  const { item: first } = await claimed(queue.next({ ...options, agent: 'late' }))
  await env.advance(2000)
  const { item: second } = await claimed(queue.next({ ...options, agent: 'current' }))
  return {
    resource: `item:${first.id}`,
    late: { kind: 'item', id: first.id, token: first.token },
    current: { kind: 'item', id: second.id, token: second.token },
  }
}
