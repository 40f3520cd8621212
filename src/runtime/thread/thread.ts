/** Starts our threads with their own Node options, and describes failures to start on both sides. */
import { Worker } from 'node:worker_threads'
import { HoldfastError, isHoldfastError } from '../../errors.ts'

/** Of the program's Node options, only those for connections and for finding packages also apply to our threads. */
const keptOptions =
  /^--(tls-(min|max)-v1\.\d|dns-result-order|(no-)?network-family-autoselection(-attempt-timeout)?|preserve-symlinks)(=|$)/
const withValue = /^--(dns-result-order|network-family-autoselection-attempt-timeout)$/

/**
 * A thread inherits the program's Node options: `--input-type` alone prevents it from starting, and a loader or
 * debugger would be started in it a second time. NODE_OPTIONS is meant for every thread and stays, unless it contains
 * `--input-type`.
 */
export function startThread(file: URL, { name, workerData }: { name: string; workerData: unknown }): Worker {
  const { NODE_OPTIONS, ...env } = process.env
  return new Worker(file, {
    name,
    workerData,
    execArgv: ownOptions(process.execArgv),
    ...(NODE_OPTIONS?.includes('--input-type') ? { env } : {}),
  })
}

function ownOptions(given: readonly string[]): string[] {
  return given.filter((option, index) => keptOptions.test(option) || withValue.test(given[index - 1] ?? ''))
}

/** The error for a thread that did not start, as the caller that opens the store gets it. */
export function notStarted(what: string, cause: unknown): HoldfastError {
  if (isHoldfastError(cause)) return cause
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `${what} could not be started (${cause instanceof Error ? cause.message : String(cause)})`,
    next: 'fix that and open again; `background: false` needs no thread, but then nothing is renewed or recovered in the background',
    cause,
  })
}

/** An error in the form in which it crosses to another thread. */
export function errorAsJson(error: unknown): ReturnType<HoldfastError['toJSON']> {
  // Facts may contain values that cannot be sent to a thread.
  if (isHoldfastError(error)) return JSON.parse(JSON.stringify(error.toJSON()))
  const wrapped = new HoldfastError('INTERNAL', {
    what: error instanceof Error ? error.message : String(error),
    next: 'please report this',
  })
  return wrapped.toJSON()
}
