/** Things that many operations answer with: what `--json` calls them, and the line that people see. */
import type * as z from 'zod'
import type { AnyOperation } from '../operations/operation.ts'
import { runView } from '../operations/run/view.ts'
import { taskView } from '../operations/task/view.ts'
import { itemView, lockView } from '../operations/view.ts'
import { unwrap } from './field-kind.ts'
import type { Verb } from './verb.ts'
import { itemLine, lockLine, taskLine } from './verbs/item-text.ts'
import { runLine } from './verbs/progress-text.ts'

interface KnownAnswer extends Pick<Verb, 'noun'> {
  readonly output: () => z.ZodType
  readonly text: (answer: never, view: never) => string
  readonly isOver?: (answer: never) => boolean
}

const knownAnswers: readonly KnownAnswer[] = [
  {
    noun: 'item',
    output: itemView,
    text: itemLine,
    isOver: ({ phase }: { phase: string }) => phase !== 'held',
  },
  {
    noun: 'task',
    output: taskView,
    text: taskLine,
    isOver: ({ lease }: { lease: unknown }) => lease === null,
  },
  { noun: 'lock', output: lockView, text: lockLine },
  { noun: 'progress', output: runView, text: runLine },
]

/** The verb with what its row leaves out. */
export function withKnownAnswer(verb: Verb, operation: AnyOperation | null): Verb {
  if (operation === null || verb.act) return verb
  const { inner } = unwrap(operation.output)
  const known = knownAnswers.find(({ output }) => output() === inner)
  if (!known) return verb
  const { output: _output, text, ...rest } = known
  const isDrawn = verb.text ?? verb.columns ?? verb.details
  return { ...rest, ...(isDrawn ? {} : { text }), ...verb } as Verb
}
