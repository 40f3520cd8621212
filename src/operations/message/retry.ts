/**
 * Redelivery, without waiting for anything external inside a transaction: 1. claim what is due under a lease; 2. send
 * it, outside the store; 3. record the outcome under that lease's token. Messages that have waited long enough are
 * settled separately.
 */
import * as z from 'zod'
import {
  claimDelivery,
  countAttempt,
  type Delivery,
  deferDelivery,
  hasAllowance,
  maxSendCrashes,
  recordAttempt,
} from '../../domain/delivery.ts'
import { type Envelope, envelopeOf } from '../../domain/envelope.ts'
import type { Message } from '../../domain/message.ts'
import { damageOf, policyOf } from '../../domain/message-damage.ts'
import { type Recipient, unregistered } from '../../domain/recipient.ts'
import { NotFoundError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import { claimant, holderWith } from '../agent/claimant.ts'
import * as fields from '../fields.ts'
import { ask, change, type OutputOf, operation, reply, view } from '../operation.ts'
import { Allowances, deliveriesTo, findRecipient } from './thread.ts'
import { stopDamaged, stopStranded, type Undeliverable, undeliverable } from './undeliverable.ts'

/**
 * Rows that one transaction claims, and records when nothing has to be sent. Takes about 2 ms, so that even a busy
 * machine stays under 20 ms.
 */
export const maxClaimed = 25
export const maxAdapters = 50
export const maxKnown = 1000

export const adaptersField = lazily(() => z.array(fields.name).max(maxAdapters))

const claims = view(() => ({
  claims: z.array(
    z.object({
      id: z.string(),
      token: z.number(),
      version: z.number(),
      adapter: z.string(),
      envelope: z.custom<Envelope>(),
    }),
  ),
  deferred: z.number(),
  failed: z.number(),
  undeliverable: z.array(undeliverable()),
}))
export type DeliveryClaims = OutputOf<typeof claims>
export type DeliveryClaim = DeliveryClaims['claims'][number]

export const claimDue = operation({
  name: 'messages.claimDue',
  summary: 'Claim due deliveries that the given adapters can send.',
  effect: 'write',
  class: 'internal',
  input: () => ({
    adapters: adaptersField(),
    limit: fields.whole(1, maxClaimed).default(maxClaimed),
    leaseMs: fields.leaseMs.unwrap(),
  }),
  output: claims,
  needs: (input, { agent, instance }) => ({
    due: { select: 'dueDeliveries', adapters: input.adapters, limit: input.limit },
    // The sender holds the delivery for as long as it sends, so only its own process counts.
    process: instance === null ? null : claimant({ agent, instance }),
  }),
  decide(rows, input, context) {
    if (rows.due.length === 0) return reply({ claims: [], deferred: 0, failed: 0, undeliverable: [] })
    if (rows.process) holderWith(context, rows.process)
    const names = [...new Set(rows.due.map(({ recipient }) => recipient))]
    return ask(
      {
        messages: {
          select: 'messagesById',
          ids: [...new Set(rows.due.map(({ message }) => message))],
        },
        known: { select: 'recipients', names, limit: maxKnown },
        allowances: { select: 'allowances', names: names.map(deliveriesTo) },
      },
      ({ messages, known, allowances }) => {
        const limits = new Allowances(allowances, context.now)
        const messageById = new Map(messages.map((message) => [message.id, message]))
        const steps = rows.due.map((delivery): Claiming => {
          const message = messageById.get(delivery.message)
          if (!message) return { kind: 'stopped', ...stopStranded(delivery, context) }
          const damage = damageOf(message)
          if (damage !== null) return { kind: 'stopped', ...stopDamaged(delivery, damage, context) }
          const recipient = findRecipient(known, delivery.recipient) ?? unregistered(delivery.recipient)
          return claimOne({ message, delivery, recipient }, limits, input.leaseMs, context)
        })
        return {
          changes: [...steps.map(({ change }) => change), ...limits.changes()],
          result: {
            claims: steps.flatMap(({ claim }) => claim ?? []),
            deferred: steps.filter(({ kind }) => kind === 'deferred').length,
            failed: steps.filter(({ kind }) => kind === 'failed').length,
            undeliverable: steps.flatMap(({ undeliverable }) => undeliverable ?? []),
          },
        }
      },
    )
  },
})

interface Claiming {
  readonly kind: 'claimed' | 'deferred' | 'failed' | 'stopped'
  readonly change: Change
  readonly claim?: DeliveryClaim
  readonly undeliverable?: Undeliverable
}

function claimOne(
  { message, delivery, recipient }: { message: Message; delivery: Delivery; recipient: Recipient },
  limits: Allowances,
  leaseMs: number,
  context: Context,
): Claiming {
  if (delivery.crashes >= maxSendCrashes) {
    const error = `its sender was lost ${delivery.crashes} times`
    const after = countAttempt(delivery, message.policy, { outcome: 'failed', error }, context)
    return {
      kind: 'failed',
      change: change('delivery', delivery, after, 'delivery.failed', context, { error }),
    }
  }
  const at = hasAllowance(delivery, delivery.nextDueAt)
    ? context.now
    : limits.take(deliveriesTo(recipient.name), recipient.deliveriesPerMinute)
  if (at > context.now) {
    const after = deferDelivery(delivery, at)
    const detail = { deferredMs: at - context.now }
    return {
      kind: 'deferred',
      change: change('delivery', delivery, after, 'delivery.deferred', context, detail),
    }
  }
  const after = claimDelivery(delivery, context, leaseMs, context.now)
  return {
    kind: 'claimed',
    change: change('delivery', delivery, after, 'delivery.claimed', context),
    claim: {
      id: after.id,
      token: after.token,
      version: after.version,
      adapter: after.adapter,
      envelope: envelopeOf(message, delivery, recipient, delivery.attempts + 1),
    },
  }
}

export const record = operation({
  name: 'messages.record',
  summary: 'Record the result of a delivery attempt, under its token.',
  effect: 'write',
  class: 'internal',
  input: () => ({
    delivery: fields.text(100),
    token: z.int().nonnegative(),
    outcome: z.enum(['sent', 'failed', 'released']),
    error: fields.text(2000).default('it failed'),
  }),
  output: () => z.object({ attempts: z.number() }),
  needs: ({ delivery }) => ({
    deliveries: { select: 'deliveriesById', ids: [delivery] },
    messages: { select: 'messagesById', ids: [delivery.slice(0, delivery.lastIndexOf('/'))] },
  }),
  decide({ deliveries, messages }, { delivery: id, token, outcome, error }, context) {
    const [before] = deliveries
    const [message] = messages
    if (!before || !message) {
      throw new NotFoundError({
        what: `there is no delivery "${id}"`,
        next: 'it was finished and removed; leave it alone',
        facts: { delivery: id },
      })
    }
    const attempt = outcome === 'failed' ? { outcome, error } : { outcome }
    const after = recordAttempt(before, { agent: context.agent, token }, policyOf(message), attempt, context)
    const detail = outcome === 'failed' ? { error } : undefined
    return {
      changes: [change('delivery', before, after, `delivery.${outcome}`, context, detail)],
      result: { attempts: after.attempts },
    }
  },
})
