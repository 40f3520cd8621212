/**
 * An error is created where its batch is decided, or in another thread, so its own stack ends there and says nothing
 * about the program that made the call. V8 knows which function awaits the call while it handles the rejected promise,
 * so the caller's frames are added there. A call that succeeds pays nothing.
 */
import { type HoldfastError, isHoldfastError, revive } from '../../errors.ts'

/** Errors that already name a caller: a whole batch may be refused with the same error. */
const named = new WeakSet<Error>()

/** Returns the error itself, or a copy if another caller already has it. `reaction` is the rejection handler. */
export function withCallerStack(error: unknown, reaction: (error: unknown) => unknown): unknown {
  if (!(error instanceof Error)) return error
  if (named.has(error)) return isHoldfastError(error) ? withCallerStack(copyOf(error), reaction) : error
  named.add(error)
  const { stack } = error
  if (typeof stack !== 'string') return error
  // An error thrown before the first await already has these frames.
  const frames = framesBelow(reaction).filter((frame) => !stack.includes(locationIn(frame)))
  if (frames.length > 0) error.stack = [stack, ...frames].join('\n')
  return error
}

function framesBelow(reaction: (error: unknown) => unknown): string[] {
  const here: { readonly stack?: unknown } = {}
  Error.captureStackTrace(here, reaction)
  // The program may have replaced `Error.prepareStackTrace`.
  if (typeof here.stack !== 'string') return []
  return here.stack.split('\n').filter((line) => /^\s+at /.test(line) && !line.includes('node:internal'))
}

/** Function and line only: the column of a call differs from that of the await before it. */
function locationIn(frame: string): string {
  return frame.replace(/^\s+at (async )?/, '').replace(/\d+\)?$/, '')
}

function copyOf({ code, what, next, facts, cause }: HoldfastError): HoldfastError {
  return revive({ code, what, next, facts, cause })
}
