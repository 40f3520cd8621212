/** Queue verbs for producers and workers. */

import { JsonFault } from '../../domain/json.ts'
import { parseJsonText } from '../../domain/json-text.ts'
import { quotedWord } from '../../domain/shell-word.ts'
import { InvalidError } from '../../errors.ts'
import type { ClaimOutcome } from '../../operations/queue/claim-outcome.ts'
import type { ResultOf } from '../../operations/table.ts'
import type { Input } from '../call.ts'
import { readStdin } from '../io.ts'
import { drawTable } from '../layout.ts'
import { lossy } from '../value.ts'
import { verb } from '../verb.ts'
import { brief, leaseLeft, type View } from '../view.ts'
import { forPid } from './claim-options.ts'
import { itemColumns, itemGrant, itemLine, lockGrant, nameOf, refusalText } from './item-text.ts'
import { claimWaiting, waitOption } from './wait.ts'

function positionText({ item, position, totalPending, reason }: ResultOf<'queue.add'>): string {
  const where = position === null ? (reason ?? '') : `position ${position} of ${totalPending}`
  return `${itemLine(item)}, ${where}`
}

/** Most items that one command adds: the limit of one transaction. */
const maxAdded = 1000

function lineValue(line: string, number: number): unknown {
  try {
    return parseJsonText(line)
  } catch (cause) {
    if (cause instanceof JsonFault) throw lossy(`line ${number}`, cause)
    throw new InvalidError({
      what: `line ${number} is not JSON: ${line.slice(0, 80)}`,
      next: 'nothing was added; fix the line and try again',
      cause,
    })
  }
}

function claimText(claim: ClaimOutcome, view: View): string {
  if (claim.outcome !== 'claimed') return refusalText(claim, view)
  return `${nameOf(claim.item)}  token ${claim.item.token}  ${brief(claim.item.payload)}`
}

const claiming = {
  options: [forPid, waitOption],
  help: 'Exit code 6: nothing to claim; 4: the processing lock is held; 9: the queue is paused.',
  text: claimText,
  hint: (claim: ClaimOutcome, { queue }: Input) =>
    claim.outcome === 'claimed'
      ? `${leaseLeft(claim.lease.remainingMs)}; then: holdfast queue complete ${quotedWord(String(queue))} ${quotedWord(claim.item.key ?? claim.item.id)}`
      : null,
  grants: (claim: ClaimOutcome) =>
    claim.outcome === 'claimed'
      ? [itemGrant(claim.item), ...(claim.lock ? [lockGrant(claim.lock)] : [])]
      : [],
} as const

/** Builds the error from the positional message and the `--code` option. */
function failInput(input: Input, options: Input): Input {
  const { error } = input
  const { code } = options
  const message = typeof error === 'string' ? error : JSON.stringify(error)
  return { ...input, error: { message, ...(code === undefined ? {} : { code }) } }
}

/** What the verbs by which an item fails have in common. */
export const failing = {
  hides: ['backoff'],
  negatable: { retryable: 'retrying cannot help' },
  options: [{ flags: '--code <text>', description: 'a word for the kind of failure' }],
  shape: failInput,
} as const

export const queueWorkVerbs = [
  verb({
    operation: 'queue.add',
    makesStore: 'always',
    positional: ['queue', 'payload'],
    body: 'payload',
    help: 'The payload is JSON, or plain text:\n  holdfast queue add builds \'{"branch":"main"}\' --priority 3\n  holdfast queue add builds - < payload.json',
    text: positionText,
  }),
  verb({
    operation: 'queue.addMany',
    makesStore: 'always',
    summary: 'Add many items, one JSON value per line on stdin. All or nothing, up to 1,000 at once.',
    positional: ['queue'],
    hides: ['items'],
    help: '  seq 100 | holdfast queue add-many numbers',
    async act(call) {
      const lines = (await readStdin(call.io)).split('\n').filter((line) => line.trim() !== '')
      if (lines.length === 0 || lines.length > maxAdded) {
        throw new InvalidError({
          what: `stdin has ${lines.length} lines`,
          next: `give 1 to ${maxAdded} lines, one JSON value per line`,
        })
      }
      const items = lines.map((line, index) => ({ payload: lineValue(line, index + 1) }))
      return call.execute('queue.addMany', { ...call.input, items })
    },
  }),
  verb({
    operation: 'queue.submit',
    makesStore: 'always',
    positional: ['queue', 'key'],
    body: 'payload',
    help: '  holdfast queue submit merges feature-x --head-sha 4f2a9c1',
    text: (answer) => `${answer.outcome}  ${positionText(answer)}`,
  }),
  verb({
    operation: 'queue.peek',
    text: (item) => (item === null ? 'nothing to claim' : `${itemLine(item)}  ${brief(item.payload)}`),
    exit: (item) => (item === null ? 6 : 0),
  }),
  verb({
    operation: 'queue.next',
    act: (call) => claimWaiting(call, 'queue.next', { queue: call.input.queue as string }),
    ...claiming,
  }),
  verb({
    operation: 'queue.nextWithLock',
    act: (call) => claimWaiting(call, 'queue.nextWithLock', { queue: call.input.queue as string }),
    ...claiming,
  }),
  verb({
    operation: 'queue.claimMany',
    positional: ['queue'],
    options: [forPid],
    text(claim, view) {
      return claim.outcome === 'claimed'
        ? drawTable(itemColumns, claim.items, view)
        : refusalText(claim, view)
    },
    grants: (claim) => (claim.outcome === 'claimed' ? claim.items.map(itemGrant) : []),
  }),
  verb({
    operation: 'queue.renew',
    text: (item) => `${itemLine(item)}, ${leaseLeft(item.lease?.remainingMs ?? 0)}`,
  }),
  verb({
    noun: 'released',
    operation: 'queue.release',
    isOver: () => true,
    says: { yes: 'released', no: 'not released: you no longer hold it', exit: 'LEASE_LOST' },
  }),
  verb({
    operation: 'queue.progress',
    body: 'progress',
    text: (item) => `${itemLine(item)}  ${brief(item.progress)}`,
  }),
  verb({
    operation: 'queue.move',
  }),
  verb({
    operation: 'queue.complete',
    body: 'result',
    completes: true,
  }),
  verb({
    operation: 'queue.fail',
    ...failing,
    text: (item, view) =>
      item.runAt === null ? itemLine(item) : `${itemLine(item)}, retries at ${view.time(item.runAt)}`,
  }),
]
