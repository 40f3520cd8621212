/** The processing lock of one queue, as this process holds it. */
import { processingLockName } from '../../domain/queue.ts'
import { lockNameOf } from '../../operations/lease/lease.ts'
import type { ResultOf } from '../../operations/table.ts'
import { leftByRelease } from '../../runtime/lease/lease-ending.ts'
import { optionsOf } from '../../runtime/session/input.ts'
import { type CallOptions, requestOf } from '../../runtime/session/request.ts'
import type { TokenOptions } from '../call-options.ts'
import type { ProcessingLock } from './queue-answers.ts'
import type { ProcessingLockOptions } from './queue-options.ts'
import type { OptionsHere, QueueRequests } from './queue-requests.ts'

export class OwnProcessingLock {
  readonly #requests: QueueRequests<unknown, unknown>

  constructor(requests: QueueRequests<unknown, unknown>) {
    this.#requests = requests
  }

  /** Not made ahead: a name from plain JavaScript may be anything, and the first request refuses it. */
  get name(): string {
    return processingLockName(this.#requests.queue)
  }

  get #session() {
    return this.#requests.session
  }

  /** The token the caller passes, or else the one that is remembered. */
  tokenFor(options: CallOptions & { token?: number | undefined }): number | undefined {
    return this.#session.grants.tokenFor('lock', this.name, options)
  }

  async acquire(options: ProcessingLockOptions): Promise<ProcessingLock> {
    optionsOf('queue.acquireProcessingLock', options)
    return this.#session.withRoom(1, options, () => this.#acquire(options))
  }

  async #acquire(options: ProcessingLockOptions): Promise<ProcessingLock> {
    const givenBack = this.#session.whenGivenBack(({ id }) => lockNameOf(id) === this.name)
    if (givenBack !== null) await givenBack
    const requestedAt = this.#session.environment.monotonic()
    const named = { token: this.tokenFor(options) }
    const answer = await this.#requests.write('queue.acquireProcessingLock', named, options)
    if (answer.outcome !== 'acquired') return answer
    return { ...answer, lease: this.#session.grantedLock(answer.lock, requestedAt, options) }
  }

  async change<Name extends 'queue.extendLock' | 'queue.renewLock'>(
    operation: Name,
    options: OptionsHere<Name>,
  ): Promise<ResultOf<Name>> {
    const token = this.tokenFor(optionsOf(operation, options) as TokenOptions)
    try {
      return await this.#requests.send(this.#requests.of(operation, { token }, options))
    } catch (error) {
      this.#session.grants.refused(error, 'lock', this.name, token, options)
      throw error
    }
  }

  async release(options: TokenOptions): Promise<boolean> {
    const token = this.tokenFor(optionsOf('queue.releaseProcessingLock', options))
    const request = requestOf('queue.releaseProcessingLock', { queue: this.#requests.queue, token }, options)
    return await this.#session.endGrant(request, { kind: 'lock', name: this.name, token }, leftByRelease)
  }

  /** Releases a lock that its caller never got to see. If that fails, stops renewing it. */
  async giveBack(token: number, by: { agent?: string }): Promise<void> {
    try {
      await this.release({ ...by, token })
    } catch (error) {
      this.#session.grants.ended('lock', this.name, token, by)
      this.#session.logger.warn({ queue: this.#requests.queue, error: String(error) }, 'worker.failed')
    }
  }
}
