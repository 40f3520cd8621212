/** One page for an agent that is starting: who it is, what it holds, what it was sent, what comes next. */
import * as z from 'zod'
import type { BoundedCount } from '../../domain/count.ts'
import { compareInLine } from '../../domain/item.ts'
import { advise } from '../../domain/prime.ts'
import { taskQueue } from '../../domain/task.ts'
import type { Loaded, Selectors } from '../../port/selector.ts'
import { leasedThings } from '../lease/lease.ts'
import { letterView, viewLetter } from '../message/view.ts'
import { ask, need, type OutputOf, operation, reply, view } from '../operation.ts'
import { atHome } from '../task/list.ts'
import { taskView, viewTask } from '../task/view.ts'
import { viewItem } from '../view.ts'
import { countHeld, heldNeeds, heldThings, heldView, judged, titleOf } from './held.ts'
import { boundedCount, readyCountsOf, watchedNeed } from './queue-row.ts'

type Watched = Selectors['watchedQueues'][1]

const tasksShown = 5
const lettersShown = 10

const primeView = view(() => ({
  agent: z.string(),
  /** The process registered for the agent. */
  process: z.object({ pid: z.number(), hostName: z.string() }).nullable(),
  /** `isRenewed`: a process renews it, so it needs no renewal by hand. */
  holds: z.array(heldView().extend({ isRenewed: z.boolean() })),
  unread: z.array(letterView()),
  /** Tasks that could be claimed now, best first. */
  tasks: z.array(taskView()),
  queues: z.array(
    z.object({ name: z.string(), ready: boundedCount(), held: boundedCount(), paused: z.boolean() }),
  ),
  moreQueues: z.boolean().describe('There are more queues than shown.'),
  advice: z.array(z.object({ what: z.string(), operation: z.string().nullable() })),
}))
/** What an agent reads when it starts. */
export type PrimePage = OutputOf<typeof primeView>

export const prime = operation({
  name: 'fleet.prime',
  summary:
    'Print one page of context for an agent that is starting up: who it is, what it holds, unread messages, what is next.',
  effect: 'read',
  answersAgent: true,
  facts: ['judged'],
  input: () => ({ judged: judged() }),
  output: primeView,
  needs: (_input, { agent, host }) => ({
    ...heldNeeds,
    registered: { select: 'registeredInstance', agent },
    letters: {
      select: 'inbox',
      recipient: agent,
      isUnread: true,
      isAll: false,
      limit: lettersShown,
      after: null,
    },
    tasks: {
      select: 'tasksMatching',
      filter: atHome({ host }),
      by: 0,
      from: null,
      window: null,
      limit: tasksShown,
    },
    offers: {
      select: 'offered',
      queue: taskQueue,
      agent,
      filter: atHome({ host }),
      limit: tasksShown,
    },
    queues: watchedNeed,
  }),
  decide(rows, input, context) {
    const ids = [...new Set(rows.letters.rows.map(({ message }) => message))]
    const needs = need({ ...readyCountsOf(rows.queues.queues), messages: { select: 'messagesById', ids } })
    return ask(needs, (more) => {
      const processes = { instances: rows.running, judged: input.judged }
      const renewed = renewedThings(rows)
      const holds = heldThings(rows, processes, context.now)
        .filter(({ holder }) => holder.agent === context.agent)
        .map((held) => ({ ...held, isRenewed: renewed.has(held.id) }))
      const unread = rows.letters.rows.flatMap((delivery) => {
        const message = more.messages.find(({ id }) => id === delivery.message)
        return message ? [viewLetter(message, delivery)] : []
      })
      const { registered } = rows
      const queues = primeQueues(rows, more.ready)
      const tasks = [...rows.tasks.items, ...rows.offers].sort(compareInLine).slice(0, tasksShown)
      return reply({
        agent: context.agent,
        process: registered && { pid: registered.pid, hostName: registered.hostName },
        holds,
        unread,
        tasks: tasks.map((item) => viewTask(viewItem(item, context.now))),
        queues,
        moreQueues: rows.queues.more,
        advice: advise({
          holds: holds.map(({ kind, title, holder, isRenewed }) => ({
            kind,
            title,
            remainingMs: holder.remainingMs,
            isRenewed,
          })),
          unread: unread.length,
          tasks: tasks.map(titleOf),
          queues: queues
            .filter(({ name, ready, paused }) => name !== taskQueue && ready.count > 0 && !paused)
            .map(({ name }) => name),
          isRegistered: registered !== null,
        }),
      })
    })
  },
})

function primeQueues(
  { queues, items }: { readonly queues: Watched; readonly items: Loaded<typeof heldNeeds>['items'] },
  counts: readonly { readonly queue: string; readonly ready: BoundedCount }[],
): PrimePage['queues'] {
  const held = countHeld(items)
  const ready = new Map(counts.map((each) => [each.queue, each.ready]))
  return queues.queues
    .map(({ queue: { name, pausedAt } }) => ({
      name,
      ready: ready.get(name) ?? { count: 0, more: false },
      held: held(name),
      paused: pausedAt !== null,
    }))
    .sort((left, right) => (left.name < right.name ? -1 : 1))
}

/** Ids of what is held by processes with a heartbeat, which renew. A process merely named in a claim does not. */
function renewedThings({ items, locks, deliveries, running }: Loaded<typeof heldNeeds>): ReadonlySet<string> {
  const renewing = new Set(running.filter(({ seenAt }) => seenAt !== null).map(({ id }) => id))
  const things = leasedThings({ items: items.map(({ item }) => item), locks, deliveries })
  return new Set(things.filter(({ row }) => renewing.has(row.instance ?? '')).map(({ id }) => id))
}
