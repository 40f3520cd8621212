/** Finding what a word refers to. */
import * as z from 'zod'
import { maxNameLength } from '../../domain/name.ts'
import { uniqueBy } from '../../domain/unique.ts'
import { text } from '../fields.ts'
import { crashNeeds, maxRunning } from '../lease/watch.ts'
import { byRef, messagePattern } from '../message/thread.ts'
import { ask, type OutputOf, operation, reply, view } from '../operation.ts'
import { heldNeeds, titleOf } from './held.ts'

export const kinds = ['item', 'lock', 'message', 'run', 'agent', 'queue'] as const
export type Kind = (typeof kinds)[number]

const foundView = view(() => ({
  kind: z.enum(kinds),
  id: z.string(),
  queue: z.string().nullable(),
  title: z.string(),
}))
type Found = OutputOf<typeof foundView>

/** Queues in which a key may name an item. */
const maxKeyed = 1000
/** A shorter prefix matches nearly everything. */
const prefixMin = 4
export const find = operation({
  name: 'fleet.find',
  summary: 'Find what a word refers to: an item, task, lock, message, run, agent or queue.',
  effect: 'read',
  input: () => ({
    ref: text(300).min(1).describe('An id, a key or a name.'),
  }),
  output: () => z.object({ found: z.array(foundView()) }),
  needs: ({ ref }) => ({
    item: { select: 'item', queue: null, ref },
    lock: { select: 'lock', name: ref },
    messages: messagePattern.test(ref) && ref.length >= prefixMin ? byRef(ref) : null,
    runs: { select: 'runsByName', runs: [ref] },
    running: { select: 'runningInstances', limit: maxRunning },
    queue: { select: 'queue', name: ref },
    keyed: ref.length <= maxNameLength ? { select: 'itemsByKey', key: ref, limit: maxKeyed } : null,
  }),
  decide(rows, { ref }) {
    const isQueue = rows.queue !== null
    const isRunning = rows.running.some(({ agent }) => agent === ref)
    const isKnown = isQueue || isRunning || rows.item !== null || rows.lock.length + rows.runs.length > 0
    // Searching everything held is expensive, so do it only for a word that means nothing else.
    const held = isKnown
      ? nobody
      : { items: heldNeeds.items, locks: heldNeeds.locks, losses: crashNeeds.losses }
    return ask(held, (more) => {
      const items = [rows.item, ...(rows.keyed ?? [])].filter((item) => item !== null)
      const holders = [
        ...(more.items ?? []).map(({ item }) => item),
        ...(more.locks ?? []),
        ...(more.losses ?? []),
      ]
      const isAgent = isRunning || holders.some(({ agent }) => agent === ref)
      const found: Found[] = [
        ...uniqueBy(items, ({ id }) => id).map((item) => thing('item', item.id, titleOf(item), item.queue)),
        ...(rows.lock.length > 0 ? [thing('lock', ref, ref)] : []),
        ...(rows.messages ?? []).map(({ id, type }) => thing('message', id, type)),
        ...rows.runs.map(({ run }) => thing('run', run, run)),
        ...(isAgent ? [thing('agent', ref, ref)] : []),
        ...(isQueue ? [thing('queue', ref, ref)] : []),
      ]
      return reply({ found })
    })
  },
})

const nobody = { items: null, locks: null, losses: null } as const

function thing(kind: Kind, id: string, title: string, queue: string | null = null): Found {
  return { kind, id, queue, title }
}
