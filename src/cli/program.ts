/** The command line for commander, built from the catalogue of verbs and the table of operations. */
import { type Argument, Command, CommanderError, Option } from 'commander'
import { unquoted } from '../domain/shell-word.ts'
import { systemEnvironment } from '../host/system.ts'
import type { AnyOperation } from '../operations/operation.ts'
import { operations } from '../operations/table.ts'
import { catalogue, type Group } from './catalogue.ts'
import { failureOf, printFailure } from './failure.ts'
import { type Field, fieldsOf, offeredFields, optionName, positionalOf } from './field.ts'
import type { Io } from './io.ts'
import { kebab } from './kebab.ts'
import { type Given, perform } from './perform.ts'
import type { GlobalOptions } from './settings.ts'
import { suggestionFor } from './suggestion.ts'
import type { Verb } from './verb.ts'
import { viewFor } from './view.ts'
import { describeField, inCommandWords } from './wording.ts'

export type { Io } from './io.ts'

/** Runs one command line and returns its exit code. */
export async function main(args: readonly string[], io: Io, version: string): Promise<number> {
  if (args[0] === 'complete') return answerShell(args.slice(1), io)
  const outcome: Outcome = { code: 0, io }
  const program = makeProgram(args, io, version, outcome)
  try {
    await program.parseAsync([...args], { from: 'user' })
    return outcome.code
  } catch (error) {
    // Commander throws for help and version too.
    if (error instanceof CommanderError && error.exitCode === 0) return 0
    if (error instanceof CommanderError && error.code === 'commander.help') return failureOf(error).exitCode
    const { json } = program.opts<GlobalOptions>()
    // Words after -- belong to another program.
    const own = args.includes('--') ? args.slice(0, args.indexOf('--')) : args
    const isJson = json === true || own.includes('--json')
    const view = viewFor(io, systemEnvironment.now())
    const meant = error instanceof CommanderError ? suggestionFor(error, program, own) : null
    return printFailure(failureOf(error, meant), outcome.io, isJson, view)
  }
}

interface Outcome {
  code: number
  /** Where the requested command may write. */
  io: Io
}

/** Sends data to stderr, with the width and colours of stderr. */
function talkOnly(io: Io): Io {
  return { ...io, out: io.err, columns: io.talkColumns, hasColors: io.hasTalkColors }
}

/** Called by the shell completion scripts, not by people. */
async function answerShell(args: readonly string[], io: Io): Promise<number> {
  const { complete } = await import('./complete.ts')
  const isQuoted = args[0] === '--quoted'
  const words = args.slice(isQuoted ? 1 : 0)
  const typed = words[0] === '--' ? words.slice(1) : words
  const lines = await complete(isQuoted ? typed.map(unquoted) : typed, io)
  if (lines.length > 0) io.out(`${lines.join('\n')}\n`)
  return 0
}

/** Every command of the program. The verbs of a noun are added once that noun is used. */
function makeProgram(args: readonly string[], io: Io, version: string, outcome: Outcome): Command {
  const program = new Command('holdfast')
    .description('Self-healing coordination for fleets of workers and AI coding agents.')
    .version(version)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.out(text),
      writeErr: (text) => io.err(text),
      outputError() {},
      getOutHelpWidth: () => io.columns ?? helpWidth,
    })
    .configureHelp({ subcommandTerm: termOf })
    .showHelpAfterError(false)
    .showSuggestionAfterError(false)
  for (const [flags, description] of globalOptions) program.option(flags, description)

  for (const group of catalogue) {
    const command = program.command(group.name, { hidden: group.isHidden === true })
    command.description(group.summary)
    if (group.section) command.helpGroup(group.section)
    if (group.alias) command.alias(group.alias)
  }
  const addVerbs = async (command: Command) => {
    const group = catalogue.find(({ name }) => name === command.name())
    if (!group) return
    if (group.leavesStdout) outcome.io = talkOnly(io)
    const act: Act = async (verb, given) => {
      outcome.code = await perform(verb, operationOf(verb), given, outcome.io, program.opts())
    }
    await fillGroup(group, command, act, args)
  }
  program.hook('preSubcommand', async (_, command) => addVerbs(command))
  return program
}

export const globalOptions: readonly (readonly [flags: string, description: string])[] = [
  ['--json', 'print one JSON object on stdout; streams print one per line'],
  ['--store <url>', 'a path or URL; default HOLDFAST_URL, then the nearest .holdfast/'],
  [
    '--agent <name>',
    'act under this name; default HOLDFAST_AGENT, else a name that all such commands on this machine share',
  ],
  ['--namespace <name>', 'work in this namespace; default HOLDFAST_NAMESPACE'],
  [
    '--idempotency-key <key>',
    'make the request safe to retry: a repeated key returns the first result, for 24 h',
  ],
]

/** Used when the width of the output is unknown. */
const helpWidth = 100

/** Leaves out `[options]`, since every command has some. */
function termOf(command: Command): string {
  return [command.name(), ...command.registeredArguments.map(argumentTerm)].join(' ')
}

function argumentTerm(argument: Argument): string {
  const word = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${word}>` : `[${word}]`
}

type Act = (verb: Verb, given: Given) => Promise<void>

/**
 * Adds the verbs of a noun. If the words name some of them, only those get arguments and options, because building the
 * schemas these come from takes longer than most commands take to run.
 */
export async function fillGroup(
  group: Group,
  command: Command,
  act: Act,
  words: readonly string[] = [],
): Promise<void> {
  const verbs = await group.load()
  const isAnyNamed = verbs.some(({ name }) => words.includes(name))
  for (const verb of verbs) {
    const own = group.isSingle
      ? command
      : command.command(verb.name, {
          hidden: verb.isHidden === true,
          isDefault: verb.isDefault === true,
        })
    if (!isAnyNamed || group.isSingle || verb.isDefault || words.includes(verb.name))
      describeVerb(own, verb, act)
    if (verb.isDefault) {
      const usual = `holdfast ${command.name()} ${verb.name}`
      command.addHelpText('after', `\nholdfast ${command.name()} is short for ${usual}; see ${usual} --help.`)
    }
  }
}

export function operationOf(verb: Verb): AnyOperation | null {
  if (verb.operation === undefined) return null
  const operation = operations.get(verb.operation)
  if (operation) return operation
  throw new Error(`${verb.name} names ${verb.operation}, which is not an operation`)
}

/** Adds the arguments, options and help of one verb. */
function describeVerb(command: Command, verb: Verb, act: Act): void {
  const operation = operationOf(verb)
  command.configureHelp({ ...command.configureHelp(), showGlobalOptions: true })
  if (verb.section) command.helpGroup(verb.section)
  if (verb.help) command.addHelpText('after', `\n${verb.help}\n`)
  const fields = operation ? fieldsOf(operation) : new Map<string, Field>()
  command.description(inCommandWords(verb.summary ?? operation?.summary ?? '', verb, fields))
  const positional = positionalOf(verb, fields).map((name) => fields.get(name) as Field)
  for (const [index, field] of positional.entries())
    command.argument(
      argumentOf(field, verb, index === positional.length - 1),
      describeField(field, verb, fields),
    )
  for (const [name, description] of verb.arguments ?? []) command.argument(name, description)
  const optional = offeredFields(verb, fields)
  for (const field of optional)
    for (const option of optionsFor(field, verb, describeField(field, verb, fields)))
      command.addOption(option)
  for (const { flags, description, isRepeatable, isRequired } of ownOptions(verb)) {
    const option = new Option(flags, description).makeOptionMandatory(isRequired === true)
    command.addOption(isRepeatable ? option.argParser(collect) : option)
  }
  const count = positional.length + (verb.arguments?.length ?? 0)
  command.action(async (...words: unknown[]) => {
    const options = words[count] as Record<string, Given['options'][string]>
    const byField = optional.flatMap((field) => {
      const value = options[camel(optionName(field))]
      return value === undefined ? [] : [[field.name, value] as const]
    })
    const own = ownOptions(verb).flatMap(({ flags }) => {
      const name = new Option(flags).attributeName()
      return options[name] === undefined ? [] : [[name, options[name]] as const]
    })
    await act(verb, {
      positional: words.slice(0, count) as Given['positional'],
      options: Object.fromEntries([...byField, ...own]),
    })
  })
}

function ownOptions(verb: Verb): NonNullable<Verb['options']> {
  return [
    ...(verb.options ?? []),
    ...(verb.body === undefined
      ? []
      : [{ flags: '--file <path>', description: `read the ${verb.body} from a file; - is stdin` }]),
    ...(verb.asks ? [{ flags: '--yes', description: 'do not ask for confirmation' }] : []),
  ]
}

function argumentOf(field: Field, { requires, body }: Verb, isLast: boolean): string {
  const several = field.kind === 'texts' && isLast ? '...' : ''
  const name = `${kebab(field.name.replace(/Ms$/, ''))}${several}`
  // A body may come from a file instead. If neither is given, the operation refuses the input.
  const isOptional = field.isOptional || field.name === body
  return isOptional && !requires?.includes(field.name) ? `[${name}]` : `<${name}>`
}

const placeholders: Readonly<Record<Field['kind'], string>> = {
  text: ' <text>',
  texts: ' <text>',
  integer: ' <number>',
  boolean: '',
  duration: ' <duration>',
  durations: ' <duration>',
  time: ' <time>',
  choice: ' <word>',
  choices: ' <word>',
  json: ' <json>',
}

function optionsFor(field: Field, { negatable, optional }: Verb, description: string): Option[] {
  const name = optionName(field)
  const several = ['texts', 'durations', 'choices'].includes(field.kind)
  const known = field.choices.length > 0 ? ` (${field.choices.join(', ')})` : ''
  const again = several ? ' Repeatable.' : ''
  const option = new Option(`--${name}${placeholders[field.kind]}`, `${description}${known}${again}`.trim())
  if (several) option.argParser(collect)
  const isFound = optional?.includes(field.name) === true
  if (!field.isOptional && !isFound && field.kind !== 'boolean') option.makeOptionMandatory()
  const negation = negatable?.[field.name]
  return negation === undefined ? [option] : [option, new Option(`--no-${name}`, negation)]
}

function collect(word: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), word]
}

function camel(name: string): string {
  return name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())
}
