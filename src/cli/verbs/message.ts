/** `holdfast msg`: messages that must be acknowledged. */

import { counted } from '../../domain/count.ts'
import type { AckAnswer, MessageAnswer } from '../../operations/message/answer.ts'
import type { MessageView } from '../../operations/message/view.ts'
import { inPieces, sumOf } from '../../runtime/session/input.ts'
import { formatDuration } from '../duration.ts'
import { type Column, drawTable } from '../layout.ts'
import { type Call, verb } from '../verb.ts'
import { brief } from '../view.ts'

function messageLine({ id, state, deliveries }: MessageView): string {
  return `${id}  ${state}  to ${deliveries.map(({ recipient }) => recipient).join(', ')}`
}

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

const deliveryColumns: readonly Column<MessageView['deliveries'][number]>[] = [
  'recipient',
  'state',
  ['tries', 'attempts'],
  ['answered', 'ackedAt'],
  ['next', dueText],
  ['note', ({ note, error }) => note ?? error],
]

function dueText({ dueInMs, givesUpInMs }: MessageView['deliveries'][number]): string {
  if (dueInMs !== null) return `again in ${formatDuration(dueInMs)}`
  return givesUpInMs === null ? '' : `waits ${formatDuration(givesUpInMs)}`
}

const messageColumns: readonly Column<MessageView>[] = [
  ['message', 'id'],
  ['from', 'sender'],
  ['to', ({ deliveries }) => deliveries.map(({ recipient }) => recipient).join(',')],
  'state',
  ['sent', 'createdAt'],
  ['content', ({ content }) => brief(content)],
]

function countPending(call: Call<'messages.clearPendingAcks'>): Promise<number> {
  return call.execute('messages.getPendingCount', { sender: call.input.sender })
}

function perMinute(limit: number): string {
  return limit === 0 ? 'no limit' : `${limit} per minute`
}

export const verbs = [
  verb({
    name: 'send',
    operation: 'messages.sendWithAck',
    body: 'content',
    help: "Separate recipients with commas; * means everybody:\n  holdfast msg send ada,bob 'the API changed' --type INFO\n  holdfast msg send '*' - < notice.txt",
    text: ({ message, deferredMs }) =>
      `${messageLine(message)}${deferredMs > 0 ? `, delayed for ${formatDuration(deferredMs)} by your rate limit` : ''}`,
  }),
  verb({
    operation: 'messages.inbox',
    act: async (call) => (await call.open()).messages.inbox(call.input),
    columns: [
      ['message', 'id'],
      ['from', 'sender'],
      ['type', ({ marker, type }) => `${marker ? `${marker} ` : ''}${type}`],
      'state',
      ['content', ({ content }) => brief(content)],
    ],
    hint: ({ messages: [first] }) => (first ? `answer with: holdfast msg receive-ack ${first.id}` : null),
  }),
  verb({ operation: 'messages.receiveAck', text: answerText }),
  verb({ operation: 'messages.nack', text: answerText }),
  verb({ name: 'progress', operation: 'messages.progressAck', text: answerText }),
  verb({
    name: 'read',
    noun: 'marked',
    operation: 'messages.markAsRead',
    says: { yes: 'marked as read', no: 'nothing to mark' },
  }),
  verb({
    name: 'status',
    noun: 'message',
    operation: 'messages.get',
    summary: 'Show a message and its deliveries.',
    missing: ({ message }) => `there is no message "${message}"`,
    details: [
      'id',
      ['from', 'sender'],
      'type',
      'state',
      'quorum',
      ['about', 'context'],
      ['sent', 'createdAt'],
      ['closed', 'closedAt'],
      ['level', ({ level }) => level || null],
      'note',
      ['content', ({ content }) => brief(content)],
    ],
    below: ({ deliveries }, view) => drawTable(deliveryColumns, deliveries, view),
  }),
  verb({
    name: 'pending',
    operation: 'messages.checkPendingAcks',
    columns: messageColumns,
  }),
  verb({
    name: 'count',
    noun: 'pending',
    operation: 'messages.getPendingCount',
  }),
  verb({ name: 'dead', operation: 'messages.listDeadLetters', columns: messageColumns }),
  verb({
    name: 'retry',
    summary: 'Retry due messages and escalate unanswered ones. Running processes do this on their own.',
    act: async (call) => (await call.open()).messages.processRetries(),
    text: ({ processed, retried, escalated, failed, deferred }) =>
      `${processed} checked, ${retried} sent again, ${escalated} escalated, ${failed} failed, ${deferred} delayed`,
  }),
  verb({
    name: 'clear',
    operation: 'messages.clearPendingAcks',
    summary: 'Cancel messages that are still waiting for an acknowledgement.',
    asks: async (call) => {
      const pendingNow = await countPending(call)
      return pendingNow === 0 ? null : `This cancels ${counted(pendingNow, 'message')} waiting for an answer.`
    },
    async act(call) {
      const dryRun = call.input.dryRun === true
      // Cancel no more than there were at the start: messages sent in the meantime are not meant. Under a key, go on to
      // the end: a repeated command is told of messages that were cancelled before it counted.
      const before =
        dryRun || call.idempotencyKey === undefined ? await countPending(call) : Number.POSITIVE_INFINITY
      if (dryRun || before === 0) return { cancelled: before, dryRun }
      const execute = (piece: number) => call.execute('messages.clearPendingAcks', call.input, piece)
      const countOf = (done: readonly { cancelled: number }[]) => sumOf(done, ({ cancelled }) => cancelled)
      const pieces = await inPieces(execute, (done) => countOf(done) >= before)
      return { cancelled: countOf(pieces), dryRun }
    },
    text: ({ cancelled, dryRun }) => `${dryRun ? 'would cancel' : 'cancelled'} ${cancelled}`,
  }),
  verb({
    operation: 'messages.redrive',
    text: messageLine,
  }),
  verb({
    noun: 'recipient',
    operation: 'messages.register',
    negatable: { address: 'it has no address' },
    makesStore: 'always',
    details: [
      ['recipient', 'name'],
      'adapter',
      'address',
      ['sends', ({ sendsPerMinute }) => perMinute(sendsPerMinute)],
      ['answers', ({ acksPerMinute }) => perMinute(acksPerMinute)],
      ['deliveries', ({ deliveriesPerMinute }) => perMinute(deliveriesPerMinute)],
    ],
  }),
]
