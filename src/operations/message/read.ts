/** Reading messages: one with its history, an inbox, the pending ones, the dead ones. */
import * as z from 'zod'
import type { Message } from '../../domain/message.ts'
import { lazily } from '../../lazily.ts'
import type { Page } from '../../port/page.ts'
import * as fields from '../fields.ts'
import { ask, type InputWith, need, type OutputOf, operation, reply, view } from '../operation.ts'
import { byRef, deliveriesOf, findMessage, messageRef, onThread, threadsOf } from './thread.ts'
import { letterView, messageView, viewLetter, viewThread } from './view.ts'

const page = lazily(() => ({
  limit: fields.limit,
  after: fields.after,
}))
const sender = lazily(() => fields.name.optional().describe('Only those of this sender.'))

export const get = operation({
  name: 'messages.get',
  summary: 'Get a message with its deliveries; null when there is none.',
  effect: 'read',
  input: () => ({ message: messageRef() }),
  output: () => messageView().nullable(),
  needs: ({ message }) => ({ found: byRef(message) }),
  decide({ found }, input, { now }) {
    const message = findMessage(found, input.message)
    if (!message) return reply(null)
    return onThread(message, (thread) => reply(viewThread(thread, now)))
  },
})

const letterPage = view(() => ({ messages: z.array(letterView()), next: z.string().nullable() }))
/** One page of an inbox. */
export type LetterPage = OutputOf<typeof letterPage>

export const inbox = operation({
  name: 'messages.inbox',
  summary:
    "List what waits for the caller's answer, most urgent first; or everything it was ever sent, newest first.",
  effect: 'read',
  answersAgent: true,
  input: () => ({
    unread: z.boolean().default(false).describe('Only unread messages.'),
    all: z.boolean().default(false).describe('Include answered and finished messages.'),
    ...page(),
  }),
  output: letterPage,
  needs: ({ unread, all, ...page }, { agent }) => ({
    letters: { select: 'inbox', recipient: agent, isUnread: unread, isAll: all, ...fields.paging(page) },
  }),
  decide({ letters }) {
    const ids = [...new Set(letters.rows.map(({ message }) => message))]
    return ask({ messages: { select: 'messagesById', ids } }, ({ messages }) => {
      const messageById = new Map(messages.map((message) => [message.id, message]))
      const shown = letters.rows.flatMap((delivery) => {
        const message = messageById.get(delivery.message)
        return message ? [viewLetter(message, delivery)] : []
      })
      return reply({ messages: shown, next: letters.next })
    })
  },
})

const messagePage = view(() => ({ messages: z.array(messageView()), next: z.string().nullable() }))
/** One page of messages. */
export type MessagePage = OutputOf<typeof messagePage>

const pageInput = lazily(() => ({ sender: sender(), ...page() }))

/** A list of messages that are open, or that nobody answered. */
const listOf = (phase: 'open' | 'dead') =>
  ({
    effect: 'read',
    input: pageInput,
    output: messagePage,
    needs: ({ sender, ...page }: InputWith<typeof pageInput>) =>
      need({ page: { select: 'messages', phase, sender: sender ?? null, ...fields.paging(page) } }),
  }) as const

function viewPage({ rows, next }: Page<Message>, now: number) {
  return ask({ deliveries: deliveriesOf(...rows) }, ({ deliveries }) =>
    reply({ messages: threadsOf(rows, deliveries).map((thread) => viewThread(thread, now)), next }),
  )
}

export const checkPendingAcks = operation({
  name: 'messages.checkPendingAcks',
  summary: 'List messages that are still waiting for an acknowledgement, oldest first.',
  ...listOf('open'),
  decide: (rows, _input, { now }) => viewPage(rows.page, now),
})

export const getPendingCount = operation({
  name: 'messages.getPendingCount',
  summary: 'Count messages that are still waiting for an acknowledgement.',
  effect: 'read',
  input: () => ({ sender: sender() }),
  output: () => z.number(),
  needs: (input) => ({ count: { select: 'openMessageCount', sender: input.sender ?? null } }),
  decide: ({ count }) => reply(count),
})

export const listDeadLetters = operation({
  name: 'messages.listDeadLetters',
  summary: 'List dead letters: messages nobody answered at any level, oldest first.',
  ...listOf('dead'),
  decide: (rows, _input, { now }) => viewPage(rows.page, now),
})
