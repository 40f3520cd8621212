/** Retries everything in a queue that failed and can be retried. */
import type { ErrorCode } from '../../error-codes.ts'
import { isHoldfastError } from '../../errors.ts'
import { knownOptionsOf } from '../../runtime/session/input.ts'
import type { QueueItem, RetryReport } from './queue-answers.ts'
import type { RetryFailedOptions } from './queue-options.ts'
import type { QueueRequests } from './queue-requests.ts'

/** Items per look: each may have a payload of 256 KiB. */
const pageSize = 100
/** Refusals that the report shows. */
const maxShown = 10
type Refusal = RetryReport['refusals'][number]

/** These concern one item. Any other error ends the call. */
const aboutOneItem: ReadonlySet<ErrorCode> = new Set([
  'DUPLICATE',
  'ILLEGAL_MOVE',
  'ATTEMPTS_EXHAUSTED',
  'VERSION_MISMATCH',
  'NOT_FOUND',
])

/** Each retry is a request of its own, so that a refusal stops none of the others. They share transactions. */
export async function retryFailed<Input, Output>(
  requests: QueueRequests<Input, Output>,
  options: RetryFailedOptions,
): Promise<RetryReport> {
  const { dryRun, ...by } = knownOptionsOf('queue.retryFailed', options, ['agent', 'reason', 'dryRun'])
  const retry = async ({ id, key, version }: QueueItem<Input>): Promise<Refusal | null> => {
    if (dryRun) return null
    try {
      await requests.write('queue.retry', { ref: id, expectedVersion: version }, by)
      return null
    } catch (error) {
      if (isHoldfastError(error) && aboutOneItem.has(error.code)) return { id, key, error: error.message }
      throw error
    }
  }
  const report = { retried: 0, refused: 0, refusals: [] as Refusal[] }
  for (let after: string | undefined | null; after !== null; ) {
    const page = await requests.read('queue.list', { retryable: true, limit: pageSize, after }, {})
    const answers = await Promise.all(page.items.map(retry))
    const refusals = answers.filter((answer) => answer !== null)
    report.retried += answers.length - refusals.length
    report.refused += refusals.length
    report.refusals.push(...refusals.slice(0, maxShown - report.refusals.length))
    after = page.next
  }
  return report
}
