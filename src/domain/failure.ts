/**
 * What went wrong with an item. A program throws what it likes, so everything is made fit here: text that can be
 * stored, within bounds, and without the control characters by which a stack could draw on a terminal.
 */
import type { Failure, Item } from './item.ts'
import { fitText, printableLines } from './text.ts'

const maxLength = { message: 10_000, code: 200, stack: 4_000, header: 500 }
/** Most errors have none, and a circle of causes must end. */
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

/** The facts of a log line. */
export function failureFacts(
  item: Pick<Item, 'queue' | 'id' | 'attempts'>,
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

/** Whether it says that trying again may help; undefined where it says nothing of the kind. */
export function retryableIn(thrown: unknown): boolean | undefined {
  const says = fieldOf(thrown, 'retryable')
  return typeof says === 'boolean' ? says : undefined
}

/** A field of whatever was thrown. An object may have getters that throw, and null has no fields. */
export function fieldOf(thrown: unknown, field: string): unknown {
  try {
    return (thrown as Record<string, unknown>)[field]
  } catch {
    return undefined
  }
}

/** What it says of itself: its message if it has one. */
export function messageOf(thrown: unknown): string {
  const message = fieldOf(thrown, 'message')
  return typeof message === 'string' ? message : textOf(thrown)
}

/** As `String()` has it, with the kind of error; but never throws. */
export function textOf(thrown: unknown): string {
  try {
    const text = String(thrown)
    if (text !== '[object Object]') return text
    // Undefined where its toJSON answers nothing.
    const json: string | undefined = JSON.stringify(thrown)
    return json ?? wordless
  } catch {
    return wordless
  }
}

const wordless = 'the thrown value has no readable text'

/** The frames matter most: a long message, which the failure has anyway, gives way to them. */
function stackOf(thrown: unknown): string {
  const stacks: string[] = []
  let error = thrown
  for (let depth = 0; depth <= maxCauses; depth++) {
    const stack = fieldOf(error, 'stack')
    if (typeof stack !== 'string' || stack === '') break
    // Spaces, not any white space: a message of many empty lines would take minutes to search.
    const framesAt = stack.search(/\n[ \t]+at /)
    const header = framesAt === -1 ? stack : stack.slice(0, framesAt)
    const frames = framesAt === -1 ? '' : stack.slice(framesAt)
    stacks.push(`${depth === 0 ? '' : 'caused by: '}${header.slice(0, maxLength.header)}${frames}`)
    error = fieldOf(error, 'cause')
  }
  return printableLines(fitText(stacks.join('\n'), maxLength.stack))
}
