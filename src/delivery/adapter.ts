/**
 * What carries messages out of the store. Adapters are functions of a process, registered there under a name; the
 * store only knows the name. A process sends only what it has an adapter for.
 */
import type { Envelope } from '../domain/envelope.ts'

export type Delivered =
  | { readonly outcome: 'delivered' }
  /** `transient`: trying again in a moment may help. */
  | { readonly outcome: 'failed'; readonly error: string; readonly transient: boolean }

export interface Adapter {
  /** How long one try may take, ms; default 10 s, of a broadcast 5 s. */
  readonly timeoutMs?: number | undefined
  /** How long one try of a broadcast may take, where that is another time. */
  readonly broadcastTimeoutMs?: number | undefined
  /**
   * Sends once. Delivered means it arrived, not that anybody answered. The same envelope may come again after a
   * crash, under the same id. An error thrown is a transient failure; the signal fires when time is up.
   */
  send(envelope: Envelope, signal: AbortSignal): Promise<Delivered>
}

const maxTimeoutMs = 60 * 60 * 1000

/** True for what can be registered as one. */
export function isAdapter(value: unknown): value is Adapter {
  if (typeof value !== 'object' || value === null || !('send' in value)) return false
  const { timeoutMs, broadcastTimeoutMs } = value as Partial<Adapter>
  return typeof value.send === 'function' && isTimeout(timeoutMs) && isTimeout(broadcastTimeoutMs)
}

/** The lease of an attempt is made of it, so one that is no time would keep everything from being sent. */
function isTimeout(value: unknown): boolean {
  if (value === undefined) return true
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= maxTimeoutMs
}
