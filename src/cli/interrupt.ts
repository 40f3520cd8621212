/** An interrupted wait shuts down cleanly, with the exit code that a shell would give. */
import { constants } from 'node:os'
import { HoldfastError } from '../errors.ts'

export class Interrupted extends HoldfastError {
  readonly #number: number

  constructor(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP' | 'SIGQUIT', next = 'nothing was claimed') {
    super('TIMEOUT', { what: `interrupted by ${signal}`, next })
    this.#number = constants.signals[signal]
  }

  override get exitCode(): number {
    return 128 + this.#number
  }
}

/** Runs a stream until the user interrupts it, which is how it ends. */
export async function untilInterrupted(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
  try {
    await whileInterruptible(run)
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error
  }
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Aborts the signal given to `run` on an interrupt; `run` should then reject with its reason. `next` is the next step
 * in that error.
 */
export async function whileInterruptible<Result>(
  run: (signal: AbortSignal) => Promise<Result>,
  next?: string,
): Promise<Result> {
  const interrupted = new AbortController()
  const listeners = signals.map((signal) => {
    const stop = () => interrupted.abort(new Interrupted(signal, next))
    process.on(signal, stop)
    return () => process.off(signal, stop)
  })
  try {
    return await run(interrupted.signal)
  } finally {
    for (const remove of listeners) remove()
  }
}
