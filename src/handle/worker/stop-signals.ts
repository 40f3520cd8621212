/**
 * Ctrl-C and a deploy end a worker in good order: it drains, gives back what is left, and the signal then does what it
 * would have done. Otherwise every deploy would look like a crash of whatever was running.
 */
import { isMainThread } from 'node:worker_threads'
import { type Environment, pause } from '../../environment.ts'

/** Docker kills 10 s after SIGTERM: this leaves time to give the items back. */
const drainMs = 8_000
/** For the last answers of the store, once the drain is over; then the process ends without them. */
const lastAnswersMs = 1_500

const signals = ['SIGINT', 'SIGTERM'] as const

/** A worker and its handle. */
export interface Stoppable {
  readonly environment: Environment
  /** Ends the worker in good order. Called again, it does so in the time given then. */
  stop(options: { drainMs: number; signal: NodeJS.Signals }): Promise<void>
  /** Gives back everything else that the handle holds: the process is about to end. */
  close(): Promise<void>
}

const stoppables = new Set<Stoppable>()
let stopsUnderWay = 0

/** Returns how to leave signals to the program again. Threads receive none, and tests that move time send none. */
export function stopOnSignals(stoppable: Stoppable): () => void {
  if (!isMainThread || stoppable.environment.isLocal) return () => {}
  // First of all, or those who listen once would be gone by the time it looks for them.
  if (stoppables.size === 0 && stopsUnderWay === 0)
    for (const signal of signals) process.prependListener(signal, onSignal)
  stoppables.add(stoppable)
  return () => {
    stoppables.delete(stoppable)
    // While the last of them stops for a signal, a second one must not end the process in the middle of it.
    if (stoppables.size === 0 && stopsUnderWay === 0) stopListening()
  }
}

function stopListening(): void {
  for (const signal of signals) process.off(signal, onSignal)
}

/** Whether the program listens too: then it decides when to end. */
function isHeardElsewhere(signal: NodeJS.Signals): boolean {
  return process.listeners(signal).some((listener) => listener !== onSignal)
}

async function onSignal(signal: NodeJS.Signals): Promise<void> {
  const isSecond = stopsUnderWay > 0
  const wasHeard = isHeardElsewhere(signal)
  const endsHere = () => !wasHeard && !isHeardElsewhere(signal)
  stopsUnderWay++
  const all = [...stoppables]
  const timeMs = isSecond ? 0 : drainMs
  await Promise.all(all.map((each) => within(timeMs, each, each.stop({ drainMs: timeMs, signal }))))
  if (endsHere()) await Promise.all(all.map((each) => within(0, each, each.close())))
  stopsUnderWay--
  // A second signal ends it: the drain of the first may take its time.
  if (stopsUnderWay > 0 && !isSecond) return
  if (stoppables.size === 0) stopListening()
  if (!endsHere()) return
  stopListening()
  process.kill(process.pid, signal)
}

/** Whatever becomes of it: the process ends even where the store does not answer. */
async function within(ms: number, { environment }: Stoppable, ending: Promise<void>): Promise<void> {
  const over = new AbortController()
  const ended = ending.catch(() => {})
  await Promise.race([ended, pause(environment, ms + lastAnswersMs, over.signal)])
  over.abort()
}
