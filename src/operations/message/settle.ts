/** Messages that waited long enough for an answer: given up, escalated, ended. Sends nothing, so it leases nothing. */
import * as z from 'zod'
import { hasAllowance } from '../../domain/delivery.ts'
import { escalate, giveUp, shouldEscalate } from '../../domain/escalation.ts'
import { due, putOff, type Thread } from '../../domain/message.ts'
import { damageOf, endDamaged, policyOf } from '../../domain/message-damage.ts'
import { unregistered } from '../../domain/recipient.ts'
import { uniqueBy } from '../../domain/unique.ts'
import type { Context } from '../../port/command.ts'
import type { Change, Decision } from '../../port/decision.ts'
import { ask, type OutputOf, operation, reply, view } from '../operation.ts'
import { adaptersField, maxKnown } from './retry.ts'
import {
  Allowances,
  allRecipients,
  deliveriesOf,
  escalations,
  findRecipient,
  maxRecipients,
  threadChanges,
  threadsOf,
} from './thread.ts'
import { stopStranded, type Undeliverable, undeliverable } from './undeliverable.ts'

/** Messages that one transaction settles: each may have a hundred deliveries. */
const maxSettled = 10

const settled = view(() => ({
  unanswered: z.number(),
  escalated: z.array(z.object({ id: z.string(), level: z.number(), unanswered: z.array(z.string()) })),
  /** With a reason, unless it is just that nobody answered. */
  dead: z.array(z.object({ id: z.string(), reason: z.string().optional() })),
  deferred: z.number(),
  undeliverable: z.array(undeliverable()),
  /** False when nothing was left to settle. */
  more: z.boolean(),
}))
export type Settled = OutputOf<typeof settled>

export const settle = operation({
  name: 'messages.settle',
  summary: 'Expire unanswered deliveries, and escalate or end their messages.',
  effect: 'write',
  class: 'internal',
  input: () => ({}),
  output: settled,
  needs: () => ({
    unanswered: { select: 'unansweredMessages', limit: maxSettled },
    due: { select: 'dueMessages', limit: maxSettled },
    stranded: { select: 'strandedDeliveries', limit: maxSettled },
  }),
  decide(rows, _input, context) {
    const messages = uniqueBy([...rows.unanswered, ...rows.due], ({ id }) => id)
    const stopped = rows.stranded.map((delivery) => stopStranded(delivery, context))
    if (messages.length === 0) return summary([], new Allowances([], context.now), stopped, context)
    const ladders = messages.map((message) => policyOf(message).ladder[message.level]?.to ?? [])
    // Everybody may be more than are loaded, and the sender is told in any case.
    const names = ladders.flatMap((to, index) => (to === '*' ? (messages[index]?.sender ?? []) : to))
    return ask(
      {
        deliveries: deliveriesOf(...messages),
        named: { select: 'recipients', names, limit: maxKnown },
        everybody: ladders.includes('*') ? { select: 'recipients', names: null, limit: maxRecipients } : null,
        allowances: { select: 'allowances', names: [escalations] },
      },
      ({ deliveries, named, everybody, allowances }) => {
        const limits = new Allowances(allowances, context.now)
        const find = (sender: string) => (to: readonly string[] | '*') => {
          const known = (name: string) => findRecipient(named, name) ?? unregistered(name)
          if (to !== '*') return [...new Set(to)].map(known)
          const others = everybody ? allRecipients(everybody).filter(({ name }) => name !== sender) : []
          return [known(sender), ...others].slice(0, maxRecipients)
        }
        const steps = threadsOf(messages, deliveries).map((thread) => ({
          before: thread,
          ...settleOne(thread, limits, find(thread.message.sender), context),
        }))
        return summary(steps, limits, stopped, context)
      },
    )
  },
})

type Settlement = 'waits' | 'escalated' | 'deferred' | 'dead'

function settleOne(
  thread: Thread,
  limits: Allowances,
  find: Parameters<typeof escalate>[1],
  context: Context,
): { after: Thread; kind: Settlement } {
  const damage = damageOf(thread.message)
  if (damage !== null) return { after: endDamaged(thread, damage, context.wall), kind: 'dead' }
  const given = giveUp(thread, context)
  const { dueAt, policy } = given.message
  const isAllowed = hasAllowance(given.message, dueAt)
  if (isAllowed && (dueAt ?? 0) > context.now) return { after: given, kind: 'waits' }
  if (!shouldEscalate(given, context.now)) {
    // Somebody answered after it became due, so there is nothing left to check.
    const isOver = given.message.state === 'pending' && dueAt !== null
    return { after: isOver ? due(given, null) : given, kind: 'waits' }
  }
  // Ending a message notifies nobody, so it does not count against the limit.
  const isLast = policy.ladder[given.message.level] === undefined
  const at = isLast || isAllowed ? context.now : limits.take(escalations, policy.escalationsPerMinute)
  if (at > context.now) return { after: putOff(given, at), kind: 'deferred' }
  const after = escalate(given, find, context)
  return { after, kind: after.message.state === 'dead' ? 'dead' : 'escalated' }
}

function summary(
  steps: readonly { before: Thread; after: Thread; kind: Settlement }[],
  limits: Allowances,
  stopped: readonly { change: Change; undeliverable: Undeliverable }[],
  context: Context,
): Decision<Settled> {
  const of = (wanted: Settlement) => steps.filter(({ kind }) => kind === wanted)
  const isGivenUp = ({ before, after }: (typeof steps)[number]) =>
    after.deliveries.filter(
      ({ state }, index) => state === 'unanswered' && before.deliveries[index]?.state !== state,
    ).length
  return {
    changes: [
      ...steps.flatMap(({ before, after }) => threadChanges(before, after, context)),
      ...limits.changes(),
      ...stopped.map(({ change }) => change),
    ],
    result: {
      unanswered: steps.reduce((total, step) => total + isGivenUp(step), 0),
      escalated: of('escalated').map(({ after: { message } }) => ({
        id: message.id,
        level: message.level,
        unanswered: (message.escalation?.unanswered ?? []).map(({ recipient }) => recipient),
      })),
      dead: of('dead').map(({ before, after: { message } }) => {
        // A note that an operator left earlier is not the reason.
        const reason = damageOf(message) ?? (message.note === before.message.note ? null : message.note)
        return { id: message.id, ...(reason === null ? {} : { reason }) }
      }),
      deferred: of('deferred').length,
      undeliverable: stopped.map(({ undeliverable }) => undeliverable),
      more: steps.length + stopped.length > 0,
    },
  }
}

export const nextDue = operation({
  name: 'messages.nextDue',
  summary: 'Say how long until the next redelivery is due.',
  effect: 'read',
  class: 'internal',
  input: () => ({ adapters: adaptersField() }),
  output: () => z.object({ dueInMs: z.number().nullable() }),
  needs: (input) => ({ at: { select: 'nextRedeliveryAt', adapters: input.adapters } }),
  decide: ({ at }, _input, { now }) => reply({ dueInMs: at === null ? null : Math.max(0, at - now) }),
})
