/** `holdfast msg`: messages that must be acknowledged. */

import { counted } from '../../domain/count.ts'
import type { AckAnswer, MessageAnswer } from '../../operations/message/answer.ts'
import type { MessagePage } from '../../operations/message/read.ts'
import type { MessageView } from '../../operations/message/view.ts'
import { inPieces, sumOf } from '../../runtime/session/input.ts'
import { type Drawing, lines } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
import { type Call, verb } from '../verb.ts'
import { brief, type View } from '../view.ts'
import { withNext } from './item-text.ts'

function messageLine({ id, state, deliveries }: MessageView): string {
  return `${id}  ${state}  to ${deliveries.map(({ recipient }) => recipient).join(', ')}`
}

const send = verb({
  name: 'send',
  operation: 'messages.sendWithAck',
  positional: ['to', 'content'],
  body: 'content',
  makesStore: true,
  help: "Separate recipients with commas; * means everybody:\n  holdfast msg send ada,bob 'the API changed' --type INFO\n  holdfast msg send '*' - < notice.txt",
  text: ({ message, deferredMs }) =>
    `${messageLine(message)}${deferredMs > 0 ? `, delayed for ${formatDuration(deferredMs)} by your rate limit` : ''}`,
})

const inbox = verb({
  name: 'inbox',
  operation: 'messages.inbox',
  async act(call) {
    const hf = await call.open()
    return hf.messages.inbox(call.input)
  },
  text: ({ messages, next }, view) =>
    withNext(
      view.table(
        ['message', 'from', 'type', 'state', 'content'],
        messages.map((letter) => [
          letter.id,
          letter.sender,
          `${letter.marker ? `${letter.marker} ` : ''}${letter.type}`,
          letter.state,
          brief(letter.content),
        ]),
      ),
      next,
      view,
    ),
  hint: ({ messages: [first] }) => (first ? `answer with: holdfast msg receive-ack ${first.id}` : null),
})

const answerTexts: Readonly<Record<string, string>> = {
  acked: 'acknowledged',
  already_acked: 'was already acknowledged',
  answered: 'answered',
  not_found: 'there is no such message',
  not_recipient: 'you are not one of its recipients',
  cancelled: 'it was cancelled',
  closed: 'it has ended',
  rate_limited: 'too many answers this minute',
}

function answerText({ outcome, message }: AckAnswer | MessageAnswer): string {
  return `${message ? `${message.id}  ` : ''}${answerTexts[outcome]}`
}

const ack = verb({
  name: 'receive-ack',
  operation: 'messages.receiveAck',
  positional: ['message'],
  text: answerText,
})

const nack = verb({
  name: 'nack',
  operation: 'messages.nack',
  positional: ['message'],
  text: answerText,
})

const progress = verb({
  name: 'progress',
  operation: 'messages.progressAck',
  positional: ['message'],
  text: answerText,
})

const read = verb({
  name: 'read',
  operation: 'messages.markAsRead',
  positional: ['message'],
  text: (marked) => (marked ? 'marked as read' : 'nothing to mark'),
  json: (marked) => ({ marked }),
})

const status = verb({
  name: 'status',
  operation: 'messages.get',
  summary: 'Show a message and its deliveries.',
  positional: ['message'],
  missing: ({ message }) => `there is no message "${message}"`,
  text: (message, view) => messagePairs(message as MessageView, view),
  json: (message) => ({ message }),
})

function messagePairs(message: MessageView, view: View): Drawing {
  const facts = view.pairs([
    ['id', message.id],
    ['from', message.sender],
    ['type', message.type],
    ['state', message.state],
    ['quorum', message.quorum],
    ['about', message.context],
    ['sent', view.time(message.createdAt)],
    ['closed', message.closedAt === null ? null : view.time(message.closedAt)],
    ['level', message.level === 0 ? null : message.level],
    ['note', message.note],
    ['content', brief(message.content)],
  ])
  const rows = message.deliveries.map((delivery) => [
    delivery.recipient,
    delivery.state,
    delivery.attempts,
    view.time(delivery.ackedAt),
    dueText(delivery),
    delivery.note ?? delivery.error ?? '',
  ])
  return lines([facts, '', view.table(['recipient', 'state', 'tries', 'answered', 'next', 'note'], rows)])
}

function dueText({ dueInMs, givesUpInMs }: MessageView['deliveries'][number]): string {
  if (dueInMs !== null) return `again in ${formatDuration(dueInMs)}`
  return givesUpInMs === null ? '' : `waits ${formatDuration(givesUpInMs)}`
}

function messageTable({ messages, next }: MessagePage, view: View): Drawing {
  const rows = messages.map((message) => [
    message.id,
    message.sender,
    message.deliveries.map(({ recipient }) => recipient).join(','),
    message.state,
    view.time(message.createdAt),
    brief(message.content),
  ])
  return withNext(view.table(['message', 'from', 'to', 'state', 'sent', 'content'], rows), next, view)
}

const pending = verb({
  name: 'pending',
  operation: 'messages.checkPendingAcks',
  text: messageTable,
})

const count = verb({
  name: 'count',
  operation: 'messages.getPendingCount',
  text: String,
  json: (pendingCount) => ({ pending: pendingCount }),
})

const dead = verb({ name: 'dead', operation: 'messages.listDeadLetters', text: messageTable })

const retry = verb({
  name: 'retry',
  summary: 'Retry due messages and escalate unanswered ones. Running processes do this on their own.',
  async act(call) {
    const hf = await call.open()
    return hf.messages.processRetries()
  },
  text: ({ processed, retried, escalated, failed, deferred }) =>
    `${processed} checked, ${retried} sent again, ${escalated} escalated, ${failed} failed, ${deferred} delayed`,
})

const clear = verb({
  name: 'clear',
  operation: 'messages.clearPendingAcks',
  summary: 'Cancel messages that are still waiting for an acknowledgement.',
  asks: async (call) => {
    const pendingNow = await countPending(call)
    return pendingNow === 0 ? null : `This cancels ${counted(pendingNow, 'message')} waiting for an answer.`
  },
  async act(call) {
    const isDryRun = call.input.dryRun === true
    // Cancel no more than there were at the start: messages sent in the meantime are not meant.
    const before = await countPending(call)
    if (isDryRun) return { cancelled: before, isDryRun }
    if (before === 0) return { cancelled: 0, isDryRun }
    const execute = (piece: number) => call.execute('messages.clearPendingAcks', call.input, piece)
    const countOf = (done: readonly { cancelled: number }[]) => sumOf(done, ({ cancelled }) => cancelled)
    const pieces = await inPieces(execute, (done) => countOf(done) >= before)
    return { cancelled: countOf(pieces), isDryRun }
  },
  text: ({ cancelled, isDryRun }) => `${isDryRun ? 'would cancel' : 'cancelled'} ${cancelled}`,
  json: ({ cancelled, isDryRun }) => ({ cancelled, dryRun: isDryRun }),
})

function countPending(call: Call<'messages.clearPendingAcks'>): Promise<number> {
  return call.execute('messages.getPendingCount', { sender: call.input.sender })
}

const redrive = verb({
  name: 'redrive',
  operation: 'messages.redrive',
  positional: ['message'],
  text: messageLine,
})

const register = verb({
  name: 'register',
  noun: 'recipient',
  operation: 'messages.register',
  positional: ['name'],
  negatable: { address: 'it has no address' },
  makesStore: true,
  text: (recipient, view) =>
    view.pairs([
      ['recipient', recipient.name],
      ['adapter', recipient.adapter],
      ['address', recipient.address],
      ['sends', perMinute(recipient.sendsPerMinute)],
      ['answers', perMinute(recipient.acksPerMinute)],
      ['deliveries', perMinute(recipient.deliveriesPerMinute)],
    ]),
})

function perMinute(limit: number): string {
  return limit === 0 ? 'no limit' : `${limit} per minute`
}

export const messageVerbs = [
  send,
  inbox,
  ack,
  nack,
  progress,
  read,
  status,
  pending,
  count,
  dead,
  retry,
  clear,
  redrive,
  register,
]
