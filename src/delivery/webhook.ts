/** Delivers messages by HTTP: one POST per attempt. */
import type { Envelope } from '../domain/envelope.ts'
import type { Adapter, AdapterOptions } from './adapter.ts'

/** Where and how to post a message. */
export interface WebhookOptions extends AdapterOptions {
  /** Where to post each message. */
  readonly url: string | URL
  /** Added to every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** Temporary trouble on the other side; any other refusal would be the same if retried at once. */
const transientStatuses: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504])

/**
 * Two requests share a key only if one attempt is sent again after a crash: a receiver that drops known keys must still
 * get what is meant for another recipient, the retries, and the escalation.
 */
function attemptKey({ attemptId, level, recipient }: Envelope): string {
  return `${attemptId}.${level}.${encodeURIComponent(recipient)}`
}

/** Any 2xx means delivered; that is not yet an acknowledgement. Redirects are not followed. */
export function webhook({ url, headers = {}, ...times }: WebhookOptions): Adapter {
  return {
    ...times,
    async send(envelope, signal) {
      const response = await fetch(url, {
        method: 'POST',
        redirect: 'manual',
        signal,
        headers: {
          'content-type': 'application/json',
          'holdfast-message': envelope.id,
          'idempotency-key': attemptKey(envelope),
          'holdfast-attempt': String(envelope.attempt),
          ...headers,
        },
        body: JSON.stringify(envelope),
      })
      // Nobody reads the body; left open, it would hold on to its connection.
      await response.body?.cancel()
      if (response.ok) return { outcome: 'delivered' }
      const transient = transientStatuses.has(response.status)
      return { outcome: 'failed', error: `HTTP ${response.status}`, transient }
    },
  }
}
