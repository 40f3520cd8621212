/**
 * Shuts workers down gracefully on Ctrl-C and on deploys: they drain and give back what is left, then the signal has
 * its usual effect. Otherwise every deploy would look like a crash of whatever was running.
 */
import { isMainThread } from 'node:worker_threads'
import { type Environment, settlesWithin } from '../../environment.ts'

/** Docker kills 10 s after SIGTERM. This leaves time to give the items back. */
const drainMs = 8_000
/** Time for the store's last answers after the drain. Then the process ends without them. */
const lastAnswersMs = 1_500

const signals = ['SIGINT', 'SIGTERM'] as const

/** A worker and its handle. */
export interface Stoppable {
  readonly environment: Environment
  /** Stops the worker gracefully. Called again, the new `drainMs` applies. */
  stop(options: { drainMs: number; signal: NodeJS.Signals }): Promise<void>
  /** Gives back everything else the handle holds, since the process is about to end. */
  close(): Promise<void>
}

const stoppables = new Set<Stoppable>()
let stopsUnderWay = 0

/**
 * Stops a worker on SIGINT and SIGTERM. Returns a function that undoes this. Does nothing in worker threads, which
 * receive no signals, and under a test's own clock.
 */
export function stopOnSignals(stoppable: Stoppable): () => void {
  if (!isMainThread || stoppable.environment.isLocal) return () => {}
  // Prepended, because `once` listeners would already be gone by the time ours looks for them.
  if (stoppables.size === 0 && stopsUnderWay === 0)
    for (const signal of signals) process.prependListener(signal, onSignal)
  stoppables.add(stoppable)
  return () => {
    stoppables.delete(stoppable)
    // While the last worker is stopping for a signal, keep listening: a second signal must not end the process halfway.
    if (stoppables.size === 0 && stopsUnderWay === 0) stopListening()
  }
}

function stopListening(): void {
  for (const signal of signals) process.off(signal, onSignal)
}

/** Whether the program listens too; then it decides when the process ends. */
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
  // The second signal ends the process; the drain of the first one may take longer than that.
  if (stopsUnderWay > 0 && !isSecond) return
  if (stoppables.size === 0) stopListening()
  if (!endsHere()) return
  stopListening()
  process.kill(process.pid, signal)
}

/** Never rejects and never waits longer: the process ends even if the store does not answer. */
async function within(ms: number, { environment }: Stoppable, ending: Promise<void>): Promise<void> {
  const ended = ending.catch(() => {})
  await settlesWithin(environment, ms + lastAnswersMs, ended)
}
