/** One attempt to send a claimed delivery: a few tries with a time limit each, all within the lease. */
import { onAbort } from '../../abort.ts'
import { type Adapter, type Delivered, inbox } from '../../delivery/adapter.ts'
import type { Envelope } from '../../domain/envelope.ts'
import { fieldOf, textOf } from '../../domain/failure.ts'
import { type Environment, pause } from '../../environment.ts'

const timeoutMsDefault = 10_000
/** A broadcast has many recipients: none of them may take long. */
const broadcastTimeoutMsDefault = 5_000
const maxTries = 3
const pauseMs = { base: 100, factor: 3, max: 1_000, jitter: 0.25 }
const marginMs = 5_000

function timeoutOf({ timeoutMs, broadcastTimeoutMs }: Adapter, { broadcast }: Pick<Envelope, 'broadcast'>) {
  return broadcast
    ? (broadcastTimeoutMs ?? timeoutMs ?? broadcastTimeoutMsDefault)
    : (timeoutMs ?? timeoutMsDefault)
}

/** Long enough for every try of one attempt, with room for a busy machine. */
export function attemptLeaseMs(adapter: Adapter): number {
  const timeoutMs = Math.max(
    timeoutOf(adapter, { broadcast: false }),
    timeoutOf(adapter, { broadcast: true }),
  )
  return maxTries * (timeoutMs + pauseMs.max * (1 + pauseMs.jitter)) + marginMs
}

export interface AttemptLimits {
  /** Monotonic time after which another process may hold the lease: nothing is sent from then on. */
  readonly deadline: number
  /** Fires when the process stops. */
  readonly stopped: AbortSignal
}

/** Null: nothing was sent. Never throws: anything an adapter throws counts as an ordinary failure. */
export async function attempt(
  adapter: Adapter,
  envelope: Envelope,
  environment: Environment,
  { deadline, stopped }: AttemptLimits,
): Promise<Delivered | null> {
  for (let number = 1; ; number++) {
    // A process that was suspended finds out here.
    if (stopped.aborted || environment.monotonic() > deadline) return null
    const result = await tryOnce(adapter, envelope, environment, stopped)
    // We cut it off, not the other side: the attempt did not fail, and will be made again.
    if (stopped.aborted && result.outcome === 'failed') return null
    const isLast = number === maxTries
    if (result.outcome === 'delivered' || !result.transient || isLast) return result
    await pause(environment, pauseBefore(number, environment.random()), stopped)
  }
}

function pauseBefore(number: number, random: number): number {
  const step = Math.min(pauseMs.max, pauseMs.base * pauseMs.factor ** (number - 1))
  return step * (1 + pauseMs.jitter * (2 * random - 1))
}

/**
 * An adapter that ignores its signal is abandoned when time is up. Whatever it still does is repeated under the same
 * id.
 */
async function tryOnce(
  adapter: Adapter,
  envelope: Envelope,
  environment: Environment,
  stopped: AbortSignal,
): Promise<Delivered> {
  // The inbox sends nothing, so nothing can be late; a timer and a signal each would be a third of the work of a pass.
  if (adapter === inbox) return adapter.send(envelope, stopped)
  const timeoutMs = timeoutOf(adapter, envelope)
  const over = new AbortController()
  const unheard = [onAbort(stopped, () => over.abort(stopped.reason))]
  const cancel = environment.timer(timeoutMs, () => over.abort(), true)
  const ended = new Promise<Delivered>((resolve) => {
    const end = () =>
      resolve({ outcome: 'failed', error: `no answer within ${timeoutMs} ms`, transient: true })
    unheard.push(onAbort(over.signal, end))
  })
  try {
    return understood(await Promise.race([adapter.send(envelope, over.signal), ended]))
  } catch (error) {
    return { outcome: 'failed', error: describe(error), transient: true }
  } finally {
    cancel()
    for (const each of unheard) each()
  }
}

/** An adapter is user code: it may answer anything. */
function understood(answer: Delivered | undefined): Delivered {
  if (answer?.outcome === 'delivered') return answer
  if (answer?.outcome === 'failed' && typeof answer.error === 'string') return answer
  const error = 'its adapter reported neither success nor failure'
  return { outcome: 'failed', error, transient: false }
}

/** fetch only says that it failed; the reason is in the cause. */
function describe(error: unknown): string {
  const code = fieldOf(fieldOf(error, 'cause'), 'code')
  return `${textOf(error)}${typeof code === 'string' ? ` (${code})` : ''}`.slice(0, 2000)
}
