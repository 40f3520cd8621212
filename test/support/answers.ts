/** Checks every answer of an engine against its operation's output schema: an extra or missing field is a fault. */
import { isDeepStrictEqual } from 'node:util'
import { operations } from '../../src/operations/table.ts'

export interface AnswerCheck {
  /** For an environment. */
  readonly answered: (operation: string, answer: unknown) => void
  readonly faults: ReadonlySet<string>
}

export function checkAnswers(): AnswerCheck {
  const faults = new Set<string>()
  const answered = (operation: string, answer: unknown) => {
    const fault = faultOf(operation, answer)
    if (fault !== null) faults.add(`${operation}: ${fault}`)
  }
  return { answered, faults }
}

/** Describes what is wrong with an answer; null when it is exactly what its operation declares. */
export function faultOf(operation: string, answer: unknown): string | null {
  const parsed = operations.get(operation)?.output.safeParse(answer)
  if (parsed === undefined) return 'there is no such operation'
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    return `${issue?.path.join('.')}: ${issue?.message}`
  }
  const undeclared = differences(answer, parsed.data, '')
  return undeclared.length === 0 ? null : `not declared: ${undeclared.join(', ')}`
}

/** Paths at which the parsed answer differs from the answer. */
function differences(answer: unknown, read: unknown, path: string): string[] {
  if (isDeepStrictEqual(answer, read)) return []
  if (!isObject(answer) || !isObject(read)) return [path]
  // A record of zod leaves out this name, which no answer is read by.
  const names = new Set([...Object.keys(answer), ...Object.keys(read)])
  names.delete('__proto__')
  return [...names].flatMap((name) =>
    differences(answer[name], read[name], path === '' ? name : `${path}.${name}`),
  )
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
