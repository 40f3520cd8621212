/** All commands with their arguments and options, for tests and for the generated reference. */
import { Command } from 'commander'
import { catalogue, type Group } from './catalogue.ts'
import { fieldsOf, offeredFields, optionName, positionalOf } from './field.ts'
import type { FieldKind } from './field-kind.ts'
import { fillGroup, operationOf } from './program.ts'
import type { Verb } from './verb.ts'

export interface CommandFacts {
  /** `queue add`, `init`, … */
  readonly name: string
  readonly summary: string
  readonly help: string
  /** The operation behind it; null for a command that only the command line has. */
  readonly operation: string | null
  /** Fields of the operation that the command does not offer. */
  readonly hides: readonly string[]
  readonly arguments: readonly {
    readonly name: string
    readonly description: string
    readonly isRequired: boolean
    readonly isVariadic: boolean
    readonly kind: FieldKind | null
  }[]
  readonly options: readonly {
    readonly flags: string
    readonly description: string
    readonly isRequired: boolean
    readonly kind: FieldKind | null
  }[]
}

/** Every command that is not hidden, in help order. */
export async function listCommands(): Promise<CommandFacts[]> {
  const shown = catalogue.filter(({ isHidden }) => !isHidden)
  const groups = await Promise.all(shown.map(async (group) => factsOf(group, await group.load())))
  return groups.flat()
}

async function factsOf(group: Group, verbs: readonly Verb[]): Promise<CommandFacts[]> {
  const command = new Command(group.name)
  await fillGroup(group, command, async () => {})
  return verbs
    .filter(({ isHidden }) => !isHidden)
    .map((verb) => {
      const own = group.isSingle ? command : command.commands.find((each) => each.name() === verb.name)
      return commandFacts(group, verb, own as Command)
    })
}

function commandFacts(group: Group, verb: Verb, command: Command): CommandFacts {
  const operation = operationOf(verb)
  const fields = operation ? fieldsOf(operation) : new Map()
  const offered = offeredFields(verb, fields)
  const kindOf = (flags: string) =>
    offered.find((field) => flags.split(' ')[0] === `--${optionName(field)}`)?.kind ?? null
  return {
    name: group.isSingle ? group.name : `${group.name} ${verb.name}`,
    summary: command.description(),
    help: verb.help ?? '',
    operation: operation?.name ?? null,
    hides: verb.hides ?? [],
    arguments: command.registeredArguments.map((argument, index) => ({
      name: argument.name(),
      description: argument.description,
      isRequired: argument.required,
      isVariadic: argument.variadic,
      kind: fields.get(positionalOf(verb, fields)[index] ?? '')?.kind ?? null,
    })),
    options: command.options.map(({ flags, description, mandatory }) => ({
      flags,
      description,
      isRequired: mandatory,
      kind: kindOf(flags),
    })),
  }
}
