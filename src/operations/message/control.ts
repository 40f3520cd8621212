/** What operators and the runtime do with messages: register recipients, cancel, redrive, remove old ones. */
import * as z from 'zod'
import { cancel, redrive as redriveMessage } from '../../domain/message.ts'
import { damageOf } from '../../domain/message-damage.ts'
import { assertMayReach, type Recipient, registerRecipient } from '../../domain/recipient.ts'
import { IllegalMoveError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Change } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { ask, change, type OutputOf, operation, reply, type Step, view } from '../operation.ts'
import { beforeOf, isPast, past } from '../recovery/horizon.ts'
import {
  byRef,
  deliveriesOf,
  findRecipient,
  messageRef,
  onThread,
  requireMessage,
  threadChanges,
  threadsOf,
} from './thread.ts'
import { messageView, viewThread } from './view.ts'

/** Messages that one transaction touches: each may have a hundred deliveries. */
const maxPerPiece = 20
/** Names that one transaction forgets. */
const maxNames = 500
const perMinute = lazily(() => fields.whole(0, 1000))
const allowancesKeptMs = 60 * 60 * 1000

const recipientView = view(() => ({
  name: z.string(),
  adapter: z.string(),
  address: z.string().nullable(),
  sendsPerMinute: z.number(),
  acksPerMinute: z.number(),
  deliveriesPerMinute: z.number(),
}))
/** How a recipient is reached, and its limits. */
export type RecipientView = OutputOf<typeof recipientView>

function viewRecipient({ registeredAt, version, ...shown }: Recipient): RecipientView {
  return shown
}

export const register = operation({
  name: 'messages.register',
  summary: 'Register a recipient or change its limits. Only the recipient can change its own adapter.',
  effect: 'write',
  input: () => ({
    name: fields.name.describe('Name of the recipient.'),
    adapter: fields.name.optional().describe('Which adapter delivers to it; default inbox.'),
    address: fields.name
      .nullable()
      .optional()
      .describe('What that adapter needs to find it, such as a channel.'),
    sendsPerMinute: perMinute()
      .optional()
      .describe('Messages it may send per minute; default 10, 0 = no limit.'),
    acksPerMinute: perMinute()
      .optional()
      .describe('Acknowledgements it may send per minute; default 100, 0 = no limit.'),
    deliveriesPerMinute: perMinute()
      .optional()
      .describe('Deliveries to it per minute; default 0 = no limit.'),
  }),
  output: recipientView,
  needs: ({ name }) => ({ known: { select: 'recipients', names: [name], limit: 1 } }),
  decide({ known }, { name, ...settings }, context) {
    const before = known.registered[0] ?? null
    const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
    assertMayReach(context.agent, findRecipient(known, name), given)
    const after = registerRecipient(before, name, given, context.wall)
    if (after === null) return reply(viewRecipient(before as Recipient))
    const changes = [change('recipient', before, after, 'recipient.registered', context)]
    return { changes, result: viewRecipient(after) }
  },
})

export const introduce = operation({
  name: 'messages.introduce',
  summary: 'Make whoever reads an inbox addressable.',
  effect: 'write',
  class: 'client',
  input: () => ({}),
  output: () => z.boolean(),
  needs: (_input, { agent }) => ({ known: { select: 'addressable', name: agent } }),
  decide({ known }, _input, { agent, wall }) {
    if (known !== null) return reply(false)
    return {
      changes: [{ table: 'addressable', before: null, after: { name: agent, at: wall } }],
      result: true,
    }
  },
})

export const clearPendingAcks = operation({
  name: 'messages.clearPendingAcks',
  summary: 'Cancel messages that are still waiting for an acknowledgement, a page at a time.',
  effect: 'write',
  input: () => ({
    sender: fields.name.optional().describe('Only those of this sender.'),
    reason: fields.reason,
    dryRun: fields.dryRun,
  }),
  output: () => z.object({ cancelled: z.number(), more: z.boolean() }),
  needs: ({ sender, dryRun }) => ({
    page: dryRun
      ? null
      : {
          select: 'messages',
          phase: 'open',
          sender: sender ?? null,
          limit: maxPerPiece,
          after: null,
        },
    count: dryRun ? { select: 'openMessageCount', sender: sender ?? null } : null,
  }),
  decide({ page, count }, { reason }, context): Step<{ cancelled: number; more: boolean }> {
    if (page === null) return reply({ cancelled: count ?? 0, more: false })
    return ask({ deliveries: deliveriesOf(...page.rows) }, ({ deliveries }) => ({
      changes: threadsOf(page.rows, deliveries).flatMap((thread) =>
        threadChanges(thread, cancel(thread, reason ?? null, context.wall), context, { detail: { reason } }),
      ),
      result: { cancelled: page.rows.length, more: page.next !== null },
    }))
  },
})

export const redrive = operation({
  name: 'messages.redrive',
  summary: 'Send a dead letter again, from the first attempt, to everybody who did not answer.',
  effect: 'write',
  input: () => ({ message: messageRef(), reason: fields.reason }),
  output: messageView,
  needs: ({ message }) => ({ found: byRef(message) }),
  decide({ found }, { message: ref, reason }, context) {
    const message = requireMessage(found, ref)
    const isDead = message.state === 'dead'
    const fault = isDead ? damageOf(message) : 'only a dead letter can be sent again'
    if (fault !== null) {
      throw new IllegalMoveError(
        { subject: `message ${message.id}`, from: message.state, to: 'pending' },
        `${fault}; send a new message instead`,
      )
    }
    return onThread(message, (thread) => {
      const after = redriveMessage(thread, reason ?? null, context.now)
      return {
        changes: threadChanges(thread, after, context, { detail: { reason } }),
        result: viewThread(after, context.now),
      }
    })
  },
})

export const retain = operation({
  name: 'messages.retain',
  summary: 'Remove finished messages, unused names and old rate limits.',
  effect: 'admin',
  class: 'internal',
  input: () => ({
    past: past().nullable().describe('Remove messages that ended before this; null: none.'),
  }),
  output: () => z.object({ messages: z.number(), more: z.boolean() }),
  needs: ({ past }) => ({
    closed:
      past === null ? null : { select: 'closedMessagesBefore', before: beforeOf(past), limit: maxPerPiece },
    allowances: { select: 'allowancesBefore', ageMs: allowancesKeptMs, limit: fields.maxBatch },
    names: past === null ? null : { select: 'unusedNames', before: beforeOf(past), limit: maxNames },
  }),
  decide({ closed, allowances, names }, { past }, context) {
    const isOver = past !== null && isPast(past, context)
    const messages = closed !== null && isOver ? closed : []
    const unused = names !== null && isOver ? names : []
    return ask({ deliveries: deliveriesOf(...messages) }, ({ deliveries }) => {
      const detail = { reason: 'retention' }
      const changes: Change[] = [
        ...deliveries.map((before) => change('delivery', before, null, 'delivery.removed', context, detail)),
        ...messages.map((before) => change('message', before, null, 'message.removed', context, detail)),
        ...allowances.map((before): Change => ({ table: 'allowance', before, after: null })),
        ...unused.map((before): Change => ({ table: 'addressable', before, after: null })),
      ]
      const more = messages.length === maxPerPiece || unused.length === maxNames
      return { changes, result: { messages: messages.length, more } }
    })
  },
})
