/**
 * What went wrong with an item. A program can throw anything, so everything is sanitized here: text that can be stored,
 * within bounds, and without control characters that would let a stack trace draw on a terminal.
 */
import { fitText, printableLines } from './text.ts'

export interface Failure {
  readonly message: string
  readonly code?: string | undefined
  readonly retryable?: boolean | undefined
  /** Where it was thrown and what caused it; truncated. */
  readonly stack?: string | undefined
}

const maxLength = { message: 10_000, code: 200, stack: 4_000, header: 500 }
/** Most errors have none, and a cycle of causes has to end somewhere. */
const maxCauses = 5

/** Never throws, whatever was thrown. */
export function failureOf(thrown: unknown): Failure {
  const code = fieldOf(thrown, 'code')
  const stack = stackOf(thrown)
  return {
    message: fitText(messageOf(thrown), maxLength.message),
    ...(typeof code === 'string' ? { code: fitText(code, maxLength.code) } : {}),
    ...(stack === '' ? {} : { stack }),
  }
}

/** The fields of a log line. */
export function failureFacts(
  item: { readonly queue: string; readonly id: string; readonly attempts: number },
  { message, code, stack }: Failure,
): Record<string, string | number> {
  return {
    queue: item.queue,
    item: item.id,
    attempt: item.attempts,
    error: message,
    ...(code === undefined ? {} : { code }),
    ...(stack === undefined ? {} : { stack }),
  }
}

/** Whether it says that retrying may help; undefined if it does not say. */
export function retryableIn(thrown: unknown): boolean | undefined {
  const says = fieldOf(thrown, 'retryable')
  return typeof says === 'boolean' ? says : undefined
}

/** Reads a field of a thrown value. Getters may throw, and null has no fields. */
export function fieldOf(thrown: unknown, field: string): unknown {
  try {
    return (thrown as Record<string, unknown>)[field]
  } catch {
    return undefined
  }
}

/** Its message, or its text if it has none. */
export function messageOf(thrown: unknown): string {
  const message = fieldOf(thrown, 'message')
  return typeof message === 'string' ? message : textOf(thrown)
}

/** Like `String()`, including the kind of error, but never throws. */
export function textOf(thrown: unknown): string {
  try {
    const text = String(thrown)
    if (text !== '[object Object]') return text
    // Undefined if its toJSON returns nothing.
    const json: string | undefined = JSON.stringify(thrown)
    return json ?? wordless
  } catch {
    return wordless
  }
}

const wordless = 'the thrown value has no readable text'

/** The frames matter most, so a long header is cut to make room for them; the failure has the message anyway. */
function stackOf(thrown: unknown): string {
  const stacks: string[] = []
  let error = thrown
  for (let depth = 0; depth <= maxCauses; depth++) {
    const stack = fieldOf(error, 'stack')
    if (typeof stack !== 'string' || stack === '') break
    // Spaces and tabs only, not `\s`: searching a message with many empty lines would take minutes.
    const framesAt = stack.search(/\n[ \t]+at /)
    const header = framesAt === -1 ? stack : stack.slice(0, framesAt)
    const frames = framesAt === -1 ? '' : stack.slice(framesAt)
    stacks.push(`${depth === 0 ? '' : 'caused by: '}${header.slice(0, maxLength.header)}${frames}`)
    error = fieldOf(error, 'cause')
  }
  return printableLines(fitText(stacks.join('\n'), maxLength.stack))
}
