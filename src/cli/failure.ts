/** Errors for people and programs: what happened, why, and what to do next. */
import { CommanderError } from 'commander'
import { HoldfastError, InvalidError, isHoldfastError } from '../errors.ts'
import { line, lines } from './drawing.ts'
import type { Io } from './io.ts'
import { printJson, printTalk } from './print.ts'
import type { View } from './view.ts'

/** Turns anything thrown into a HoldfastError. `meant` is the best guess at a mistyped command or option. */
export function failureOf(error: unknown, meant: string | null = null): HoldfastError {
  if (isHoldfastError(error)) return error
  if (error instanceof CommanderError) return misuse(error, meant)
  if (isFileError(error)) return fileFailure(error)
  const what = error instanceof Error ? error.message : String(error)
  return new HoldfastError('INTERNAL', {
    what,
    next: 'please report this with the command you ran',
    cause: error,
  })
}

function isFileError(error: unknown): error is NodeJS.ErrnoException & { path: string } {
  return error instanceof Error && 'syscall' in error && 'path' in error && typeof error.path === 'string'
}

/** A file that cannot be read or written is not a bug in this program. */
function fileFailure(error: NodeJS.ErrnoException & { path: string }): HoldfastError {
  const isMissing = error.code === 'ENOENT'
  return new HoldfastError(isMissing ? 'NOT_FOUND' : 'FORBIDDEN', {
    what: isMissing ? `there is no ${error.path}` : `${error.path} cannot be used (${error.code})`,
    next: isMissing ? 'check the path' : 'check that it is the right kind of file, and its permissions',
    facts: { path: error.path, code: error.code },
    cause: error,
  })
}

function misuse({ message, code }: CommanderError, meant: string | null): InvalidError {
  const [first = ''] = message.replace(/^error: /, '').split('\n')
  return new InvalidError({
    what: first,
    next: meant === null ? 'run it with --help to see what it accepts' : `did you mean ${meant}?`,
    facts: { code },
  })
}

/** Prints the error and returns its exit code. */
export function printFailure(error: HoldfastError, io: Io, isJson: boolean, view: View): number {
  if (isJson) {
    printJson(io, { error: { ...error.toJSON(), retryable: error.retryable } })
    return error.exitCode
  }
  const { talkColors: colors } = view
  const why = whyOf(error)
  const parts = [
    line`${colors.red('error')}  ${error.what}`,
    ...(why === null ? [] : [line`${colors.dim('why')}    ${why}`]),
    line`${colors.dim('next')}   ${error.next}`,
  ]
  printTalk(io, lines(parts))
  return error.exitCode
}

/** The underlying cause, if the error does not state it itself. */
function whyOf({ cause, facts, code }: HoldfastError): string | null {
  // Our own message about a busy store is clearer than the driver's.
  if (code === 'INTERNAL' || code === 'BUSY') return null
  if (cause instanceof Error && cause.message !== '') return cause.message.split('\n')[0] ?? null
  const issues = facts.issues as readonly { path: string; message: string }[] | undefined
  if (issues === undefined || issues.length < 2) return null
  return issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ')
}
