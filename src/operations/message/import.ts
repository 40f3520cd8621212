/** Imports messages that another program left pending: once each, with the id they had. */
import * as z from 'zod'
import { importMessage } from '../../domain/message.ts'
import { registerRecipient, unregistered } from '../../domain/recipient.ts'
import { makePolicy } from '../../domain/redelivery-policy.ts'
import { uniqueBy } from '../../domain/unique.ts'
import { lazily } from '../../lazily.ts'
import type { Change } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { change, operation, reply } from '../operation.ts'
import { messageContent, messageType, newThreadChanges } from './send.ts'
import { findRecipient } from './thread.ts'

/** Messages that one transaction imports. */
export const maxImported = 100

export const importEntry = lazily(() =>
  z.strictObject({
    id: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/),
    sender: fields.name,
    recipient: fields.name,
    type: messageType(),
    content: messageContent(),
    attempts: fields.whole(1, 100),
    dueAt: fields.wallTime.nullable(),
    sentAt: fields.wallTime.nullable(),
    note: fields.text(2000).nullable(),
  }),
)
export type ImportEntry = z.input<ReturnType<typeof importEntry>>

export const importPending = operation({
  name: 'messages.import',
  summary: 'Import pending messages from another tool. Importing twice is a no-op.',
  effect: 'admin',
  class: 'client',
  input: () => ({
    entries: z.array(importEntry()).max(maxImported),
    dryRun: z.boolean().default(false),
  }),
  output: () => z.object({ imported: z.array(z.string()), known: z.array(z.string()) }),
  needs: ({ entries }) => ({
    there: { select: 'messagesById', ids: entries.map(({ id }) => id) },
    recipients: {
      select: 'recipients',
      names: entries.map(({ recipient }) => recipient),
      limit: maxImported,
    },
  }),
  decide({ there, recipients }, { entries, dryRun }, context) {
    const known = new Set(there.map(({ id }) => id))
    const fresh = uniqueBy(entries, ({ id }) => id).filter(({ id }) => !known.has(id))
    const result = { imported: fresh.map(({ id }) => id), known: [...known] }
    if (dryRun) return reply(result)
    // Register recipients of the old program here too, or their messages could not be followed up.
    const strangers = [...new Set(fresh.map(({ recipient }) => recipient))].filter(
      (name) => !findRecipient(recipients, name),
    )
    return {
      changes: [
        ...strangers.map((name): Change => {
          const after = registerRecipient(null, name, {}, context.wall)
          return change('recipient', null, after, 'recipient.registered', context)
        }),
        ...fresh.flatMap(({ recipient, attempts, dueAt, sentAt, note, ...rest }) => {
          const { wall } = context
          const request = {
            ...rest,
            context: null,
            parent: null,
            priority: 5,
            quorum: 1,
            policy: makePolicy({}),
          }
          const to = findRecipient(recipients, recipient) ?? unregistered(recipient)
          const dueInMs = Math.max(0, (dueAt ?? wall) - wall)
          const state = { attempts, dueInMs, sentAt: sentAt ?? wall, note }
          const thread = importMessage(request, to, state, context)
          return newThreadChanges(thread, context.agent, 'message.imported')
        }),
      ],
      result,
    }
  },
})
