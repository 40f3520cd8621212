/**
 * A verb of the command line: one row that names an operation, says which of its fields are given by position, and
 * how its answer is shown. Everything else (options, bounds, help) comes from the operation's schema.
 */
import type { Holdfast } from '../handle/holdfast.ts'
import type { InputOf, OperationName, ResultOf } from '../operations/table.ts'
import type { Drawn } from './drawing.ts'
import type { Io } from './io.ts'
import type { Leased, LeaseFiles } from './lease-file.ts'
import type { Settings } from './settings.ts'
import type { View } from './view.ts'

/** An option of the command line itself, which no operation knows. */
export interface OwnOption {
  /** As commander takes it: `--wait [duration]`. */
  readonly flags: string
  readonly description: string
  readonly isRequired?: true
  /** Given several times, it is a list. */
  readonly isRepeatable?: true
}

export type Input = Readonly<Record<string, unknown>>

export interface Verb<Name extends OperationName = OperationName, Answer = unknown> {
  readonly name: string
  readonly operation?: Name
  /** Where it is not the operation's own. */
  readonly summary?: string
  /** Under which heading the help of its noun lists it. */
  readonly section?: string
  /** Longer help: what the summary leaves open, and an example. */
  readonly help?: string
  /** Fields given by position, in order; a field that holds several takes the rest. */
  readonly positional?: readonly string[]
  /** Fields that may be left out although the operation needs them: the verb finds them out. */
  readonly optional?: readonly string[]
  /** Of these, those that must be given although the operation can do without. */
  readonly requires?: readonly string[]
  /** Arguments of a verb without an operation, as commander takes them: `<file>`. */
  readonly arguments?: readonly (readonly [name: string, description: string])[]
  /** Input the verb fixes itself. */
  readonly fixed?: Input
  /** Fields that are not offered. */
  readonly hides?: readonly string[]
  /** Fields for which none, or no, is an answer of its own: what `--no-…` then says. */
  readonly negatable?: Readonly<Record<string, string>>
  readonly options?: readonly OwnOption[]
  /** The field that may come from a file or from stdin (`-`). */
  readonly body?: string
  /** What its token is for: taken from `--token`, `HOLDFAST_TOKEN` or the file of the lease. */
  readonly holds?: 'item' | 'task' | 'lock' | 'queueLock' | 'run'
  /** Something lost for good for others: asks on a terminal, needs `--yes` elsewhere. */
  readonly asks?: (call: Call<Name>) => Promise<string | null>
  readonly isHidden?: true
  /** It looks at `config.toml` itself, so what is wrong with that file does not keep it from running. */
  readonly inspects?: true
  /** Meant when the noun stands alone. */
  readonly isDefault?: true
  /** The store is made where there is none; others are refused. */
  readonly makesStore?: true
  /** Its process stands behind what it claims, renews it, and heals meanwhile. */
  readonly lives?: true
  /** Leases that came with the answer. */
  readonly grants?: (answer: Answer, call: Call<Name>) => readonly (Leased & { readonly token: number })[]
  /** It completes an item: its token is remembered, so that it can be repeated. */
  readonly completes?: true
  /** Whether the lease has ended with this answer. */
  readonly isOver?: (answer: Answer) => boolean
  /** What the answer `null` means: there is nothing of that name. */
  readonly missing?: (input: InputOf<Name>) => string
  /** The operation's input, made from the words of the command line. */
  readonly shape?: (input: Input, options: Input) => Input
  /** Instead of executing the operation once. */
  readonly act?: (call: Call<Name>) => Promise<Answer>
  readonly text: (answer: Answer, view: View, input: InputOf<Name>) => Drawn
  /** What the answer is: under this name `--json` shows it, as every other verb that answers such a thing does. */
  readonly noun?: 'item' | 'task' | 'lock' | 'queue' | 'progress' | 'recipient'
  /** What `--json` shows, where that is not the answer itself. */
  readonly json?: (answer: Answer, input: InputOf<Name>) => object | null
  /** What may be done next; talk for people, on a terminal only. */
  readonly hint?: (answer: Answer, input: InputOf<Name>) => string | null
  readonly exit?: (answer: Answer) => number
}

/** What a verb acts on and with. */
export interface Call<Name extends OperationName = OperationName> {
  readonly io: Io
  readonly settings: Settings
  readonly isJson: boolean
  readonly idempotencyKey: string | undefined
  /** The process named by `--for-pid`. */
  readonly instance: string | undefined
  /** Of the operation, checked by its schema. */
  readonly input: InputOf<Name>
  /** Of the command line itself, by the names commander gives them. */
  readonly options: Input
  /** What stands after the options of `run`. */
  readonly rest: readonly string[]
  readonly view: View
  readonly leases: LeaseFiles
  open(): Promise<Holdfast>
  /** `piece`: which one of a change that takes several, so that each is asked under a key of its own. */
  execute<Other extends OperationName>(
    operation: Other,
    input: InputOf<Other>,
    piece?: number,
  ): Promise<ResultOf<Other>>
  /** One record of a stream: its text, or its line of JSON. */
  emit(text: Drawn, record: object): void
  /** Talk. */
  say(text: Drawn): void
}

/** Checks a row against the types of its operation, then forgets them. */
export function verb<Name extends OperationName, Answer = ResultOf<Name>>(row: Verb<Name, Answer>): Verb {
  return row as unknown as Verb
}
