/** docs/reference/options.md: every option with its sentence, default and bounds. */
import * as z from 'zod'
import { operations } from '../../src/operations/table.ts'
import { openOptions } from '../../src/options.ts'
import { type Declaration, exportsOf } from './declarations.ts'
import { innerOf, inputFields, otherTypes, sentenceOf } from './input.ts'
import { code, heading, table } from './markdown.ts'

/** Exports that a caller fills in. */
export function isOptions({ name, kind }: Pick<Declaration, 'name' | 'kind'>): boolean {
  return kind === 'interface' && /(?:Options|Request)$/.test(name)
}

export function optionsPage(): string {
  const given = exportsOf('src/index.ts').filter((each) => isOptions(each) && !isOfOpen(each.name))
  return [
    ...heading('Options', 'the schemas and types in `src/`'),
    'A name that ends in `Ms` is a time in milliseconds, one that ends in `At` a date in milliseconds since 1970 (where a type says so, a `Date` too). Unknown options are refused as `INVALID`, with the nearest known name.',
    '',
    '## open()',
    '',
    'The second argument of `open(url, options)`.',
    '',
    ...optionTable(Object.entries(openOptions.shape)),
    ...Object.entries(openOptions.shape).flatMap(nested),
    ...given.toSorted((left, right) => (left.name < right.name ? -1 : 1)).flatMap(optionType),
    '',
  ].join('\n')
}

/** They are tables of `open()`. */
function isOfOpen(name: string): boolean {
  return ['OpenOptions', 'RecoveryOptions', 'RetentionOptions'].includes(name)
}

/** Its own options, and those that it takes from the input of an operation. */
function optionType({ name, doc, parents, members }: Declaration): string[] {
  const inputs = parents.flatMap((parent) => inputFields(parent) ?? [])
  const others = parents.flatMap(otherTypes)
  const own = new Set(members.map((member) => member.name))
  return [
    '',
    `## ${name}`,
    '',
    doc,
    ...(others.length === 0 ? [] : ['', `Also takes the options of ${others.map(code).join(', ')}.`]),
    ...(own.size + inputs.length === 0 ? [] : ['']),
    ...(own.size + inputs.length === 0
      ? []
      : table(
          ['option', 'meaning', 'bounds', 'type'],
          [
            ...members.map((member) => [
              code(member.isOptional ? member.name : `${member.name} (required)`),
              member.doc,
              boundsOf(schemaOf(member.name, member.doc)),
              code(member.type),
            ]),
            ...inputs
              .filter((field) => !own.has(field.name))
              .map((field) => [
                code(field.isOptional ? field.name : `${field.name} (required)`),
                field.sentence,
                boundsOf(field.schema),
                code(field.type),
              ]),
          ],
        )),
  ]
}

/** Options of one option: an object, or an object in place of a switch. */
function nested([name, schema]: [string, z.ZodType]): string[] {
  const inner = unwrap(schema)
  const choices = inner instanceof z.ZodUnion ? (inner.options as z.ZodType[]) : [inner]
  const object = choices.find((each) => each instanceof z.ZodObject)
  if (!object) return []
  return ['', `### ${name}`, '', schema.description ?? '', '', ...optionTable(Object.entries(object.shape))]
}

function optionTable(options: readonly [string, z.ZodType][]): string[] {
  return table(
    ['option', 'meaning', 'default', 'bounds'],
    options.map(([name, schema]) => [code(name), sentenceOf(schema), defaultOf(schema), boundsOf(schema)]),
  )
}

function unwrap(schema: z.ZodType): z.ZodType {
  const inner = innerOf(schema)
  return inner === null ? schema : unwrap(inner)
}

interface Facts {
  readonly default?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly enum?: readonly unknown[]
}

function factsOf(schema: z.ZodType): Facts {
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Facts
}

function defaultOf(schema: z.ZodType): string {
  const value = factsOf(schema).default
  const isShown = value !== undefined && (typeof value !== 'object' || value === null)
  return isShown ? code(JSON.stringify(value).replaceAll('"', "'")) : ''
}

/** The schema of an option that a type declares itself, for its bounds. */
function schemaOf(option: string, sentence: string): z.ZodType | null {
  for (const { input } of operations.values()) {
    if (!(input instanceof z.ZodObject)) continue
    const field = (input.shape as Record<string, z.ZodType>)[option]
    if (field && field.description === sentence) return field
  }
  return null
}

function boundsOf(schema: z.ZodType | null): string {
  if (schema === null) return ''
  const facts = factsOf(schema)
  return [
    range(facts.minimum, facts.maximum, ''),
    range(facts.minLength, facts.maxLength, ' characters'),
    range(facts.minItems, facts.maxItems, ' entries'),
    facts.enum?.map((each) => code(String(each))).join(', ') ?? '',
  ]
    .filter((each) => each !== '')
    .join('; ')
}

/** Every integer has the bounds of a double, which say nothing. */
function range(given: number | undefined, max: number | undefined, of: string): string {
  const least = given !== undefined && given > Number.MIN_SAFE_INTEGER ? given : null
  const most = max !== undefined && max < Number.MAX_SAFE_INTEGER ? max : null
  const shown = (value: number) => value.toLocaleString('en-US')
  if (most === null) return least === null || least === 0 ? '' : `at least ${shown(least)}${of}`
  return least === null ? `at most ${shown(most)}${of}` : `${shown(least)} to ${shown(most)}${of}`
}
