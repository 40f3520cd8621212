/** The command line as commander sees it; verbs and their options are made from the operation table. */
import { Command, CommanderError, Option } from 'commander'
import * as z from 'zod'
import { InvalidError } from '../errors.ts'
import { operations } from '../operations/table.ts'
import { addCopy } from './copy.ts'
import { parseDuration } from './duration.ts'
import { printError, printJson } from './output.ts'
import { execute } from './store.ts'
import { exitCodeOf, type Verb, verbs } from './verbs.ts'

/** Runs one command line; answers with the exit code. */
export async function run(args: readonly string[], version: string): Promise<number> {
  let exitCode = 0
  const program = new Command('holdfast')
    .description('Self-healing coordination for fleets of workers and AI coding agents.')
    .version(version)
    .option('--json', 'one JSON object on stdout')
    .option('--store <path>', 'the store; default HOLDFAST_URL, then .holdfast/store.db')
    .option('--agent <name>', 'act under this name')
    .option('--namespace <name>', 'work in this namespace')
    .exitOverride()
  const json = () => program.opts<{ json?: boolean }>().json === true

  for (const noun of new Set(verbs.map((verb) => verb.noun))) {
    const group = program.command(noun).description(`work with a ${noun}`).exitOverride()
    for (const verb of verbs.filter((each) => each.noun === noun)) {
      group.addCommand(
        commandFor(verb, async (input) => {
          const answer = await execute(program.opts(), verb.operation, input)
          exitCode = exitCodeOf(answer)
          if (json()) showJson(answer)
          else verb.show(answer as never)
        }).exitOverride(),
      )
    }
  }
  program
    .command('demo')
    .description('kill and freeze real workers and watch the work heal, in under a minute')
    .action(async () => {
      const { demo } = await import('./demo.ts')
      exitCode = await demo({ json: json() })
    })
  addCopy(program, {
    json,
    exit(code) {
      exitCode = code
    },
  })

  try {
    await program.parseAsync([...args], { from: 'user' })
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError)
      return error.exitCode === 0 ? 0 : new InvalidError({ what: error.message, next: '' }).exitCode
    return printError(error, json())
  }
}

function showJson(answer: unknown): void {
  const isObject = typeof answer === 'object' && answer !== null && !Array.isArray(answer)
  printJson(isObject ? answer : { result: answer })
}

function commandFor(verb: Verb, act: (input: Record<string, unknown>) => Promise<void>): Command {
  const operation = operations.get(verb.operation)
  if (!(operation?.input instanceof z.ZodObject)) throw new Error(`${verb.operation} has no object input`)
  const fields = Object.entries(operation.input.shape as Record<string, z.ZodType>)
  const command = new Command(verb.verb).description(operation.summary)
  for (const name of verb.positional) {
    const schema = (operation.input.shape as Record<string, z.ZodType>)[name] as z.ZodType
    command.argument(schema.isOptional() ? `[${name}]` : `<${name}>`, schema.description ?? '')
  }
  const optional = fields.filter(([name]) => !verb.positional.includes(name) && !(name in (verb.fixed ?? {})))
  for (const [name, schema] of optional) command.addOption(optionFor(name, schema))
  return command.action(async (...given: unknown[]) => {
    const options = given[verb.positional.length] as Record<string, string | boolean | undefined>
    const input: Record<string, unknown> = { ...verb.fixed }
    verb.positional.forEach((name, index) => {
      const text = given[index] as string | undefined
      if (text !== undefined) input[name] = name === 'payload' ? parseJson(name, text) : text
    })
    for (const [name, schema] of optional) {
      const value = options[optionKey(name)]
      if (value !== undefined) input[name] = parseValue(name, schema, value)
    }
    await act(input)
  })
}

const isDuration = (name: string) => name.endsWith('Ms')
const optionKey = (name: string) => (isDuration(name) ? name.slice(0, -2) : name)
const kebab = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

function optionFor(name: string, schema: z.ZodType): Option {
  const kind = kindOf(schema)
  const placeholder = isDuration(name)
    ? ' <duration>'
    : { boolean: '', integer: ' <number>', text: ' <text>', json: ' <json>' }[kind]
  return new Option(`--${kebab(optionKey(name))}${placeholder}`, schema.description ?? '')
}

function kindOf(schema: z.ZodType): 'boolean' | 'integer' | 'text' | 'json' {
  const types = typesOf(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }))
  if (types.includes('string')) return 'text'
  if (types.includes('integer')) return 'integer'
  return types.includes('boolean') ? 'boolean' : 'json'
}

/** The JSON types a schema accepts, those of `string | null` and the like included. */
function typesOf(schema: z.core.JSONSchema._JSONSchema): string[] {
  if (typeof schema === 'boolean') return []
  return [schema.type ?? [], ...(schema.anyOf ?? []).map(typesOf)].flat()
}

function parseValue(name: string, schema: z.ZodType, value: string | boolean): unknown {
  if (typeof value === 'boolean') return value
  if (isDuration(name)) return parseDuration(value)
  const kind = kindOf(schema)
  if (kind === 'text') return value
  return kind === 'integer' ? parseInteger(name, value) : parseJson(name, value)
}

function parseInteger(name: string, text: string): number {
  if (/^-?\d{1,16}$/.test(text)) return Number(text)
  throw new InvalidError({
    what: `--${kebab(name)}: "${text}" is not a whole number`,
    next: 'give digits only',
  })
}

/** JSON, or plain text taken as a string: `holdfast queue add q hello` needs no quotes within quotes. */
function parseJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    if (name === 'payload' && !/^\s*[[{"]/.test(text)) return text
    throw new InvalidError({
      what: `${name}: ${text.slice(0, 80)} is not JSON`,
      next: `quote it for your shell, as in '{"a":1}'`,
    })
  }
}
