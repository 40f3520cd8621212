/** Draws the answer of a verb for people: as the verb says, and otherwise whole, from the output schema. */
import { quotedWord } from '../domain/shell-word.ts'
import { errorCodes } from '../error-codes.ts'
import type { AnyOperation } from '../operations/operation.ts'
import type { Input } from './call.ts'
import { type Drawn, lines } from './drawing.ts'
import { exitCodeOf } from './exit.ts'
import { fieldsOf } from './field.ts'
import { outputKinds } from './field-kind.ts'
import { type Column, drawDetails, drawTable } from './layout.ts'
import type { Verb } from './verb.ts'
import type { View } from './view.ts'

type Row = Readonly<Record<string, unknown>>

export function drawAnswer(
  verb: Verb,
  operation: AnyOperation | null,
  answer: unknown,
  { view, input }: { readonly view: View; readonly input: Input },
): Drawn {
  if (verb.text) return verb.text(answer, view, input as never)
  if (typeof answer === 'boolean') return sentence(verb, answer, input)
  // A stream has already printed everything.
  if (answer === undefined) return ''
  if (typeof answer !== 'object' || answer === null) return String(answer)
  const kinds = operation ? outputKinds(operation.output) : undefined
  const list = verb.details ? null : listIn(answer)
  if (list === null) {
    const details = (verb.details ?? Object.keys(answer)) as string[]
    const below = verb.below?.(answer, view) ?? null
    const facts = drawDetails(details, answer as Row, view, kinds)
    return below === null ? facts : lines([facts, '', below])
  }
  if (!verb.columns && list.every((entry) => typeof entry === 'string')) return lines(list)
  const columns = (verb.columns ?? Object.keys(list[0] as Row)) as Column<Row>[]
  const table = drawTable(columns, list as Row[], view, kinds)
  const { next } = answer as { next?: string | number | null }
  if (next == null) return table
  const option = operation && fieldsOf(operation).has('before') ? 'before' : 'after'
  return lines([table, view.colors.dim(`more: --${option} ${quotedWord(String(next))}`)])
}

/** The exit code of an answer, the same with and without `--json`. */
export function exitOf(verb: Verb, answer: unknown): number {
  if (answer === false && verb.says?.exit) return errorCodes[verb.says.exit].exit
  return verb.exit?.(answer) ?? exitCodeOf(answer)
}

/** `<ref>` stands for what was given as the argument of that name. */
function sentence({ says }: Verb, answer: boolean, input: Input): string {
  const text = answer ? (says?.yes ?? 'yes') : (says?.no ?? 'no')
  return text.replace(/<(\w+)>/g, (_, name: string) => String(input[name]))
}

/** A list, or a page of one: then the answer has nothing beside it but where the next page begins. */
function listIn(answer: object): readonly unknown[] | null {
  if (Array.isArray(answer)) return answer
  const { next: _next, ...fields } = answer as Row
  const [list, ...others] = Object.values(fields)
  return Array.isArray(list) && others.length === 0 ? list : null
}
