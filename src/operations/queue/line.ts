/** The line of a queue: who is next, and whether there is anything to claim. */
import * as z from 'zod'
import { compareInLine, type Item } from '../../domain/item.ts'
import { lapsesAt } from '../../domain/lease.ts'
import { processingLockName } from '../../domain/queue.ts'
import type { Caller } from '../../port/command.ts'
import type { ItemFilter } from '../../port/item.ts'
import * as fields from '../fields.ts'
import { ask, need, type OutputOf, operation, reply, type Step, view } from '../operation.ts'
import { itemView, viewItem } from '../view.ts'

/**
 * A process takes one suspect at a time, so that its next crash shows which item is to blame. A claim by hand may take
 * any number.
 */
export function suspectsOf(
  queue: string,
  { instance }: Caller,
  { limit, filter = null }: { limit: number; filter?: ItemFilter | null },
) {
  return { select: 'suspects', queue, filter, instance, limit: instance === null ? limit : 1 } as const
}

/** The rows that a claim on a queue chooses from. */
export function lineOf(queue: string, caller: Caller, limit: number) {
  return need({
    ready: { select: 'claimable', queue, limit },
    suspects: suspectsOf(queue, caller, { limit }),
  })
}

/** Counting stops here: it answers "how far back", not "how many exactly". */
const maxPosition = 100_000

/** How many ready items are before this one. */
export function lineBefore({ queue, priority, addedAt, id }: Item) {
  return { select: 'line', queue, priority, addedAt, id, limit: maxPosition } as const
}

export function firstInLine(
  line: { ready: readonly Item[]; suspects: readonly Item[] },
  limit: number,
): readonly Item[] {
  if (line.suspects.length === 0) return line.ready
  return [...line.ready, ...line.suspects].sort(compareInLine).slice(0, limit)
}

export const peek = operation({
  name: 'queue.peek',
  summary: 'Show the item that would be claimed next.',
  effect: 'read',
  input: () => ({ queue: fields.queue }),
  output: () => itemView().nullable(),
  needs: ({ queue }, caller) => lineOf(queue, caller, 1),
  decide(line, _input, { now }) {
    const [next] = firstInLine(line, 1)
    return reply(next ? viewItem(next, now) : null)
  },
})

const lookView = view(() => ({
  ready: z.boolean(),
  nextDueAt: z.number().nullable(),
  /** Time until the next lease, of an item or the processing lock, can be taken over; below 0 if it already can. */
  lapseInMs: z.number().nullable(),
}))
type Look = OutputOf<typeof lookView>

export const look = operation({
  name: 'queue.look',
  summary: 'Say whether there is anything to claim, and when there may be.',
  effect: 'read',
  class: 'client',
  input: () => ({
    queue: fields.queue,
    lapses: z.boolean().optional().describe('Also report when the next lease there ends.'),
  }),
  output: lookView,
  needs: ({ queue, lapses }, caller) => ({
    ...lineOf(queue, caller, 1),
    nextDueAt: { select: 'nextDueAt', queue },
    offers: { select: 'offered', queue, agent: caller.agent, filter: null, limit: 1 },
    held: lapses ? { select: 'heldItems', queue, limit: 1 } : null,
    locks: lapses ? { select: 'lock', name: processingLockName(queue) } : null,
  }),
  decide({ offers, nextDueAt, held, locks, ...line }, { queue }, { wall, now, manualGraceMs }): Step<Look> {
    const claimable = [...firstInLine(line, 1), ...offers]
    const answer = (items: readonly Item[]) => {
      const ends = [...items, ...(locks ?? [])].map((lease) => lapsesAt(lease, { manualGraceMs }))
      return reply({
        // An item that is due becomes ready through the claim that finds it.
        ready: claimable.length > 0 || (nextDueAt !== null && nextDueAt <= wall),
        nextDueAt,
        lapseInMs: ends.length === 0 ? null : Math.min(...ends) - now,
      })
    }
    const first = held?.[0]?.item
    if (first === undefined || first.instance !== null || manualGraceMs === 0)
      return answer(first ? [first] : [])
    // It is spared after it expires, so one that a process renews may be free before it.
    return ask({ bound: { select: 'heldItems', queue, isBound: true, limit: 1 } }, ({ bound }) =>
      answer([first, ...bound.map(({ item }) => item)]),
    )
  },
})
