/**
 * A verb of the command line: one row that names an operation, lists the fields given by position, and says how to show
 * the answer. Everything else (options, bounds, help) comes from the operation's schema.
 */
import type { ErrorCode } from '../error-codes.ts'
import type { InputOf, OperationName, ResultOf } from '../operations/table.ts'
import type { CommandCall, Input } from './call.ts'
import type { Drawn } from './drawing.ts'
import { kebab } from './kebab.ts'
import type { Column, Detail, EntryOf } from './layout.ts'
import type { Leased } from './lease-file.ts'
import type { View } from './view.ts'

/** An option of the command line only, unknown to operations. */
export interface OwnOption {
  /** In commander's syntax: `--wait [duration]`. */
  readonly flags: string
  readonly description: string
  /** What its value is, if it is a number. */
  readonly kind?: 'integer' | 'duration'
  readonly isRequired?: true
  /** May be repeated; its value is then a list. */
  readonly isRepeatable?: true
}

export interface Verb<Name extends OperationName = OperationName, Answer = unknown> {
  readonly name: string
  readonly operation?: Name
  /** Overrides the operation's summary. */
  readonly summary?: string
  /** The heading under which the noun's help lists it. */
  readonly section?: string
  /** Longer help: what the summary leaves out, and an example. */
  readonly help?: string
  /**
   * Fields given by position, in order; default all that the operation requires. A field with several values takes all
   * remaining words.
   */
  readonly positional?: readonly string[]
  /** Fields that may be omitted although the operation requires them, because the verb works them out. */
  readonly optional?: readonly string[]
  /** Positional fields that must be given although the operation does not require them. */
  readonly requires?: readonly string[]
  /** Arguments of a verb without an operation, in commander's syntax: `<file>`. */
  readonly arguments?: readonly (readonly [name: string, description: string])[]
  /** Input that the verb sets itself. */
  readonly fixed?: Input
  /** Fields that are not offered. */
  readonly hides?: readonly string[]
  /** Fields for which "none" or "no" is a value of its own, each with the help text of its `--no-…` option. */
  readonly negatable?: Readonly<Record<string, string>>
  readonly options?: readonly OwnOption[]
  /** The field that may come from a file or from stdin (`-`). */
  readonly body?: string
  /** For verbs by which others lose something for good: asks on a terminal, requires `--yes` elsewhere. */
  readonly asks?: (call: Call<Name>) => Promise<string | null>
  readonly isHidden?: true
  /** It inspects `config.toml` itself, so it runs even if something is wrong with that file. */
  readonly inspects?: true
  /** Used when the noun is given without a verb. */
  readonly isDefault?: true
  /**
   * Creates a missing store: `always` for what adds or defines something; `named` for what is as good in an empty store
   * but would guard nothing in the wrong folder, so only where `--store`, `HOLDFAST_URL` or a setting names the store.
   * Verbs without this take or read what is there, and fail instead.
   */
  readonly makesStore?: 'always' | 'named' | ((options: Input) => 'named' | undefined)
  /** Its process itself holds what it claims, renews it, and heals in the meantime. */
  readonly lives?: true
  /**
   * Leases granted by the answer, to the caller unless they were transferred to an agent; then with the token that was
   * named.
   */
  readonly grants?: (
    answer: Answer,
    call: Call<Name>,
  ) => readonly (Leased & {
    readonly token: number
    readonly agent?: string
    readonly former?: number | undefined
  })[]
  /** It completes an item. The token is kept, so that the completion can be retried. */
  readonly completes?: true
  /** Whether anybody may make this change while nobody holds the thing, even an agent that has lost it. */
  readonly needsNoLease?: (input: InputOf<Name>) => boolean
  /** Whether this answer means that the lease has ended. */
  readonly isOver?: (answer: Answer) => boolean
  /** The error text for the answer `null`: nothing has that name. */
  readonly missing?: (input: InputOf<Name>) => string
  /** Builds the operation's input from the words of the command line. */
  readonly shape?: (input: Input, options: Input) => Input
  /** Replaces the single execution of the operation. */
  readonly act?: (call: Call<Name>) => Promise<Answer>
  /**
   * How people see the answer, if it is a list: these columns. Without any of this, they see all of the answer, as a
   * table or as details.
   */
  readonly columns?: NoInfer<readonly Column<EntryOf<Answer>>[]>
  /** If it is one thing: these lines. */
  readonly details?: NoInfer<readonly Detail<NonNullable<Answer>>[]>
  /** What follows the details, after an empty line. */
  readonly below?: (answer: NonNullable<NoInfer<Answer>>, view: View) => Drawn | null
  /** If it is yes or no: one of two sentences, in which `<ref>` stands for that argument. */
  readonly says?: { readonly yes: string; readonly no: string; readonly exit?: ErrorCode }
  /** Where words do better than any of these. */
  readonly text?: (answer: Answer, view: View, input: InputOf<Name>) => Drawn
  /** What the answer is. `--json` shows it under this name, the same for every verb that returns such a thing. */
  readonly noun?: string
  /** What `--json` shows, if not the answer itself. */
  readonly json?: (answer: Answer, input: InputOf<Name>) => object | null
  /** A hint for people on what to do next; printed to stderr, only on a terminal. */
  readonly hint?: (answer: Answer, input: InputOf<Name>) => string | null
  readonly exit?: (answer: Answer) => number
}

/** Everything a verb has to work with. `input`: the operation's input, checked by its schema. */
export type Call<Name extends OperationName = OperationName> = Omit<CommandCall, 'input'> & {
  readonly input: InputOf<Name>
}

/** A verb that is called what its operation is called needs no name: `queue.beginMerge` is `begin-merge`. */
type VerbRow<Name extends OperationName, Answer> = Omit<Verb<Name, Answer>, 'name'> & {
  readonly name?: string
}

/** Checks a row against the types of its operation, then erases them. */
export function verb<Name extends OperationName, Answer = ResultOf<Name>>(row: VerbRow<Name, Answer>): Verb {
  const [, name = ''] = row.operation?.split('.') ?? []
  return { name: kebab(name), ...row } as unknown as Verb
}
