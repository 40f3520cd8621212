/** Explaining why something is in its current state. */
import * as z from 'zod'
import { suspectAgents } from '../../domain/crash-pattern.ts'
import type { StoredEvent } from '../../domain/event.ts'
import type { Explanation } from '../../domain/explain.ts'
import { explainAgent, explainQueue, type LockHolder } from '../../domain/explain-fleet.ts'
import { explainItem, type ItemFacts } from '../../domain/explain-item.ts'
import { explainLock, explainRun } from '../../domain/explain-lock.ts'
import { explainMessage } from '../../domain/explain-message.ts'
import {
  describeHolding,
  isLost,
  isOver,
  type Judged,
  judgeProcess,
  runningHosts,
} from '../../domain/holding.ts'
import type { Instance } from '../../domain/instance.ts'
import type { Item } from '../../domain/item.ts'
import { sparedForMs } from '../../domain/lease.ts'
import type { Lock } from '../../domain/lock.ts'
import { type LockLine, maxWaiters } from '../../domain/lock-line.ts'
import type { Message } from '../../domain/message.ts'
import { processingLockName } from '../../domain/queue.ts'
import type { Run } from '../../domain/run.ts'
import { readWords, taskQueue } from '../../domain/task.ts'
import { NotFoundError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Decision } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import { text } from '../fields.ts'
import { lockRef } from '../lease/lease.ts'
import { crashNeeds, maxRunning } from '../lease/watch.ts'
import { ask, need, type OutputOf, operation, reply, type Step, view } from '../operation.ts'
import { lineBefore } from '../queue/line.ts'
import { asFreed, closedBlockers, newestEvents, workflowOf } from '../subject.ts'
import { type Kind, kinds } from './find.ts'
import { heldNeeds, heldThings, holdingView, judged, titleOf } from './held.ts'
import { glancesOf, queueRows } from './queue-row.ts'

const maxHistory = 10

const explanationView = view(() => ({
  kind: z.enum(kinds),
  id: z.string(),
  queue: z.string().nullable(),
  title: z.string(),
  verdict: z.enum(['ready', 'held', 'waiting', 'stuck', 'free', 'closed', 'gone']),
  why: z.string(),
  holder: holdingView().nullable(),
  evidence: z.array(z.string()),
  next: z.array(z.object({ what: z.string(), inMs: z.number().nullable() })),
  can: z.array(
    z.object({
      operation: z.string(),
      input: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
      because: z.string(),
    }),
  ),
  history: z.array(
    z.object({
      seq: z.number(),
      at: z.number(),
      kind: z.string(),
      agent: z.string().nullable(),
      detail: z.record(z.string(), z.unknown()).nullable(),
    }),
  ),
}))
/** Why something is in its current state. */
export type FleetExplanation = OutputOf<typeof explanationView>

const input = lazily(() => ({
  kind: z.enum(kinds).describe('What kind of thing it is.'),
  id: text(300).min(1).describe('Its id, or its name.'),
  judged: judged(),
}))

const historyOf = (subject: 'item' | 'lock' | 'message' | 'run' | 'queue', id: string) =>
  newestEvents({ subject, id }, maxHistory)

export const explain = operation({
  name: 'fleet.explain',
  summary:
    'Why something is waiting, held or stuck: evidence, what happens when, history, what may safely be done.',
  effect: 'read',
  input,
  facts: ['judged'],
  output: explanationView,
  needs: ({ kind, id }) => ({
    item: kind === 'item' ? { select: 'item', queue: null, ref: id } : null,
    closed: kind === 'item' ? closedBlockers : null,
    line: kind === 'lock' ? { select: 'lockLine', name: id, waiter: null, limit: maxWaiters } : null,
    message: kind === 'message' ? { select: 'messagesById', ids: [id] } : null,
    run: kind === 'run' ? { select: 'runsByName', runs: [id] } : null,
    defined: kind === 'queue' ? { select: 'queue', name: id } : null,
    running: { select: 'runningInstances', limit: maxRunning },
  }),
  decide(rows, asked, context): Step<FleetExplanation> {
    const of = { ...asked, context, processes: { instances: rows.running, judged: asked.judged } }
    switch (asked.kind) {
      case 'item':
        return itemStep(required(rows.item, asked), rows.closed ?? [], of)
      case 'lock':
        return lockStep(rows.line as NonNullable<typeof rows.line>, of)
      case 'message':
        return messageStep(required(rows.message?.[0], asked), of)
      case 'run':
        return runStep(required(rows.run?.[0], asked), of)
      case 'queue':
        return queueStep(required(rows.defined, asked), of)
      case 'agent':
        return agentStep(rows.running, of)
    }
  },
})

interface Asked {
  readonly kind: Kind
  readonly id: string
  readonly judged: readonly Judged[]
  readonly context: Context
  readonly processes: Parameters<typeof describeHolding>[1]
}

function required<Row>(row: Row | null | undefined, { kind, id }: { kind: Kind; id: string }): Row {
  if (row) return row
  throw new NotFoundError({
    what: `there is no ${kind} "${id}"`,
    next: 'look for it with `fleet.find`; finished things are removed after their retention',
    facts: { kind, id },
  })
}

function tell(
  { kind, id }: Asked,
  explained: Explanation,
  rest: { title?: string; queue?: string | null; history?: readonly StoredEvent[] },
): Decision<FleetExplanation> {
  const { history = [], title = id, queue = null } = rest
  return reply({
    kind,
    id,
    queue,
    title,
    ...explained,
    evidence: [...explained.evidence],
    next: [...explained.next],
    can: explained.can.map((act) => ({ ...act, input: { ...act.input } })),
    history: history.map(({ seq, at, kind: happened, agent, detail }) => ({
      seq,
      at,
      kind: happened,
      agent,
      detail: detail === null ? null : { ...detail },
    })),
  })
}

function itemStep(found: Item, closed: readonly string[], of: Asked): Step<FleetExplanation> {
  const { context, processes } = of
  const needs = need({
    defined: { select: 'queue', name: found.queue },
    blockers: { select: 'itemsById', ids: found.waitingFor },
    locks: { select: 'lock', name: processingLockName(found.queue) },
    line: lineBefore(found),
    history: historyOf('item', found.id),
    instances: { select: 'instances', ids: found.instance === null ? [] : [found.instance] },
  })
  return ask(needs, ({ defined, blockers, locks, line, history, instances }) => {
    const known = { ...processes, instances: [...instances, ...processes.instances] }
    const { queue } = required(defined, { kind: 'queue', id: found.queue })
    const item = asFreed(found, defined, closed)
    const explained = explainItem({
      item,
      queue,
      workflow: workflowOf(defined as DefinedQueue),
      holder: item.phase === 'held' ? describeHolding(item, known, context.now) : null,
      sparedMs: sparedForMs(item, context),
      blockers,
      position: item.phase === 'ready' ? line.ahead + 1 : null,
      lockHolders: lockHolders(locks, of),
      host: hostOf(item, of),
      wall: context.wall,
    })
    return tell(of, explained, { title: titleOf(item), queue: item.queue, history })
  })
}

function hostOf(item: Item, { processes }: Asked): ItemFacts['host'] {
  const name = item.queue === taskQueue ? readWords({ ...item, payload: null }).host : null
  return name === null ? null : { name, isRunning: runningHosts(processes).has(name) }
}

/** Who keeps others from a queue's processing lock, soonest expiry first. */
function lockHolders(locks: readonly Lock[], { processes, context }: Asked): LockHolder[] {
  return locks
    .map((lock) => ({
      holder: describeHolding(lock, processes, context.now),
      sparedMs: sparedForMs(lock, context),
    }))
    .filter(({ holder, sparedMs }) => !isLost(holder) || sparedMs > 0)
    .sort((left, right) => left.holder.remainingMs - right.holder.remainingMs)
}

function lockStep({ locks, waiting }: LockLine, of: Asked): Step<FleetExplanation> {
  const ids = locks.flatMap(({ instance }) => instance ?? [])
  const needs = need({
    instances: { select: 'instances', ids },
    // Each slot of a lock has its own number and history. The first says the most.
    history: historyOf('lock', lockRef(locks[0] ?? { name: of.id, slot: 0 })),
  })
  return ask(needs, ({ instances, history }) => {
    const known = { ...of.processes, instances: [...instances, ...of.processes.instances] }
    const slots = locks
      .map((lock) => ({
        lock,
        holder: describeHolding(lock, known, of.context.now),
        sparedMs: sparedForMs(lock, of.context),
      }))
      .sort((left, right) => left.holder.remainingMs - right.holder.remainingMs)
    return tell(of, explainLock({ name: of.id, slots, waiting }), { history })
  })
}

function messageStep(message: Message, of: Asked): Step<FleetExplanation> {
  const needs = need({
    deliveries: { select: 'deliveriesOf', messages: [message.id] },
    history: historyOf('message', message.id),
  })
  return ask(needs, ({ deliveries, history }) => {
    const explained = explainMessage({ message, deliveries }, of.context.now)
    return tell(of, explained, { title: `${message.type} from ${message.sender}`, history })
  })
}

function runStep(run: Run, of: Asked): Step<FleetExplanation> {
  const needs = need({
    locks: { select: 'lock', name: run.lock },
    history: historyOf('run', run.run),
  })
  return ask(needs, ({ locks, history }) => {
    const lock = locks.find(({ token, delayedSince }) => token === run.token && delayedSince === null)
    const holder = lock ? describeHolding(lock, of.processes, of.context.now) : null
    return tell(of, explainRun(run, holder, lock ? sparedForMs(lock, of.context) : 0), { history })
  })
}

function queueStep(defined: DefinedQueue, of: Asked): Step<FleetExplanation> {
  const { queue } = defined
  const needs = need({
    ...glancesOf([defined]),
    items: heldNeeds.items,
    nextDueAt: { select: 'nextDueAt', queue: queue.name },
    locks: { select: 'lock', name: processingLockName(queue.name) },
    history: historyOf('queue', queue.name),
  })
  return ask(needs, ({ glances, items, nextDueAt, locks, history }) => {
    const [counted] = queueRows({ queues: { queues: [defined] }, items }, glances, of.context)
    const { ready, waiting, held, quarantined, oldestReadyMs } = required(counted, of)
    const explained = explainQueue({
      queue,
      ready,
      waiting,
      held,
      quarantined,
      oldestReadyMs,
      isDue: nextDueAt !== null && nextDueAt <= of.context.wall,
      lockHolders: lockHolders(locks, of),
    })
    return tell(of, explained, { history })
  })
}

function agentStep(running: readonly Instance[], of: Asked): Step<FleetExplanation> {
  return ask({ ...heldNeeds, ...crashNeeds }, (rows) => {
    const held = heldThings(rows, of.processes, of.context.now).filter(({ holder }) => holder.agent === of.id)
    const lapsed = held.filter(({ holder }) => isOver(holder))
    const processes = running.filter(({ agent }) => agent === of.id)
    const explained = explainAgent({
      processes: processes.map(({ id, pid, hostName }) => ({
        instance: id,
        pid,
        hostName,
        ...judgeProcess(id, of.processes),
      })),
      holds: held.length,
      lapsed: lapsed.length,
      orphaned: held.filter(({ holder }) => isLost(holder)).length - lapsed.length,
      crashes: rows.losses.filter(({ agent }) => agent === of.id).length,
      isSuspect: suspectAgents(rows.ends).includes(of.id),
    })
    return tell(of, explained, {})
  })
}
