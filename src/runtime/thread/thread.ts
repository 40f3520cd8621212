/** Our threads: started with options of their own, and what both sides say when that fails. */
import { Worker } from 'node:worker_threads'
import { HoldfastError, isHoldfastError } from '../../errors.ts'

/** Options of Node for connections, and for where packages are found, hold in our threads too; nothing else does. */
const keptOptions =
  /^--(tls-(min|max)-v1\.\d|dns-result-order|(no-)?network-family-autoselection(-attempt-timeout)?|preserve-symlinks)(=|$)/
const withValue = /^--(dns-result-order|network-family-autoselection-attempt-timeout)$/

/**
 * A thread inherits the options of the program: `--input-type` alone keeps it from starting, a loader or a debugger
 * would be started in it once more. NODE_OPTIONS is meant for every thread and stays, unless it keeps it from starting.
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

/** Why a thread is not there, as whoever opens the store is told. */
export function notStarted(what: string, cause: unknown): HoldfastError {
  if (isHoldfastError(cause)) return cause
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `${what} could not be started (${cause instanceof Error ? cause.message : String(cause)})`,
    next: 'fix that and open again; with `background: false` there is no thread, and nothing is renewed or healed by itself',
    cause,
  })
}

/** An error as it crosses to another thread. */
export function errorAsJson(error: unknown): ReturnType<HoldfastError['toJSON']> {
  // Facts may hold what no thread can be sent.
  if (isHoldfastError(error)) return JSON.parse(JSON.stringify(error.toJSON()))
  const wrapped = new HoldfastError('INTERNAL', {
    what: error instanceof Error ? error.message : String(error),
    next: 'please report this',
  })
  return wrapped.toJSON()
}
