/**
 * An error is made where a batch is decided, or comes from a thread: its own stack ends there and says nothing of the
 * program that called. Who awaits a call is known to V8 in the reaction to the rejected promise, so the frames are
 * added there; a call that succeeds costs nothing.
 */
import { type HoldfastError, isHoldfastError, revive } from '../../errors.ts'

/** Errors that name a caller already: a whole batch may be refused with one. */
const named = new WeakSet<Error>()

/** The error itself, or a copy where another caller has it; `reaction` is the function that was told of the rejection. */
export function withCallerStack(error: unknown, reaction: (error: unknown) => unknown): unknown {
  if (!(error instanceof Error)) return error
  if (named.has(error)) return isHoldfastError(error) ? withCallerStack(copyOf(error), reaction) : error
  named.add(error)
  const { stack } = error
  if (typeof stack !== 'string') return error
  // What was refused before anything was awaited has these frames already.
  const frames = framesBelow(reaction).filter((frame) => !stack.includes(locationIn(frame)))
  if (frames.length > 0) error.stack = [stack, ...frames].join('\n')
  return error
}

function framesBelow(reaction: (error: unknown) => unknown): string[] {
  const here: { readonly stack?: unknown } = {}
  Error.captureStackTrace(here, reaction)
  // A program may print stacks in a way of its own.
  if (typeof here.stack !== 'string') return []
  return here.stack.split('\n').filter((line) => /^\s+at /.test(line) && !line.includes('node:internal'))
}

/** Function and line: the column of a call is another than that of the await before it. */
function locationIn(frame: string): string {
  return frame.replace(/^\s+at (async )?/, '').replace(/\d+\)?$/, '')
}

function copyOf({ code, what, next, facts, cause }: HoldfastError): HoldfastError {
  return revive({ code, what, next, facts, cause })
}
