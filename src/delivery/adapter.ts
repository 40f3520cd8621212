/**
 * What carries messages out of the store. Adapters are functions of a process, registered there under a name; the
 * store knows only the name. A process sends only what it has an adapter for.
 */
import type { Envelope } from '../domain/envelope.ts'

/** The outcome of one try to deliver. */
export type Delivered =
  | { readonly outcome: 'delivered' }
  /** `transient`: retrying in a moment may help. */
  | { readonly outcome: 'failed'; readonly error: string; readonly transient: boolean }

/** How long a delivery may take. */
export interface AdapterOptions {
  /** Time limit of one try, ms; default 10 s, for a broadcast 5 s. */
  readonly timeoutMs?: number | undefined
  /** Time limit of one try of a broadcast, ms, if it differs. */
  readonly broadcastTimeoutMs?: number | undefined
}

/** How a process delivers messages by other means than the inbox. */
export interface Adapter extends AdapterOptions {
  /**
   * Sends once. Delivered means it arrived, not that anybody answered. The same envelope may come again after a
   * crash, under the same id. A thrown error is a transient failure; the signal fires when time is up.
   */
  send(envelope: Envelope, signal: AbortSignal): Promise<Delivered>
}

/** The inbox in the store: recording the attempt makes a message appear there, so there is nothing to send. */
export const inbox: Adapter = {
  send: async () => ({ outcome: 'delivered' }),
}

const maxTimeoutMs = 60 * 60 * 1000

/** Whether a value can be registered as an adapter. */
export function isAdapter(value: unknown): value is Adapter {
  if (typeof value !== 'object' || value === null || !('send' in value)) return false
  const { timeoutMs, broadcastTimeoutMs } = value as Partial<Adapter>
  return typeof value.send === 'function' && isTimeout(timeoutMs) && isTimeout(broadcastTimeoutMs)
}

/** The lease of an attempt is computed from it, so an invalid timeout would keep everything from being sent. */
function isTimeout(value: unknown): boolean {
  if (value === undefined) return true
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= maxTimeoutMs
}
