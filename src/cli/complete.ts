/**
 * Completions at the cursor: the shell scripts call `holdfast complete -- words…` at every tab. It is quick, never
 * fails, never creates a store, and prints nothing when it knows nothing.
 */
import { Command, Option } from 'commander'
import { builtInWorkflows } from '../domain/built-in-workflows.ts'
import { printable } from '../domain/text.ts'
import { catalogue, type Group } from './catalogue.ts'
import { fieldsOf, offeredFields, optionName, positionalOf } from './field.ts'
import type { Io } from './io.ts'
import { type Candidate, type LiveKind, loadNames } from './live-names.ts'
import { fillGroup, globalOptions, operationOf } from './program.ts'
import type { GlobalOptions } from './settings.ts'
import type { Verb } from './verb.ts'
import { inCommandWords } from './wording.ts'

/** Returned instead of names: the shell completes files best. */
const files = ':files'
const maxCandidates = 500

/** The last word is the one at the cursor. Returns lines of `value<tab>description`, or `:files`. */
export async function complete(words: readonly string[], io: Io): Promise<string[]> {
  try {
    const found = await candidatesFor(words, io)
    if (found === 'files') return [files]
    const current = words.at(-1) ?? ''
    const isMeant = ({ value }: Candidate) => value.startsWith(current)
    return found.filter(isMeant).slice(0, maxCandidates).map(lineOf)
  } catch {
    // The user is in the middle of typing, so there is nowhere to report an error.
    return []
  }
}

function lineOf({ value, description }: Candidate): string {
  return description === '' ? value : `${value}\t${printable(description)}`
}

type Found = readonly Candidate[] | 'files'

async function candidatesFor(words: readonly string[], io: Io): Promise<Found> {
  const current = words.at(-1) ?? ''
  const walked = await walk(words.slice(0, -1))
  if (walked === null) return []
  const cursor = current.startsWith('-') ? ((await meantVerb(walked)) ?? walked) : walked
  const values = (name: string, choices: readonly string[]) => valuesFor(name, choices, cursor, io)
  if (cursor.pending?.required) return values(cursor.pending.long ?? '', choicesOf(cursor, cursor.pending))
  if (cursor.isBehindDashes) return 'files'
  const [flag = '', inline] = current.startsWith('--') ? splitOnce(current, '=') : []
  if (inline !== undefined) {
    const option = optionsAt(cursor).find(({ long }) => long === flag)
    const found = option ? await values(flag, choicesOf(cursor, option)) : []
    return found === 'files'
      ? found
      : found.map(({ value, description }) => ({ value: `${flag}=${value}`, description }))
  }
  if (current.startsWith('-')) return optionCandidates(cursor)
  if (cursor.group === null) return named(catalogue.filter(({ isHidden }) => !isHidden))
  if (cursor.verb === null) {
    const verbs = cursor.verbs.filter(({ isHidden }) => !isHidden)
    return verbs.map((verb) => ({ value: verb.name, description: summaryOf(verb) }))
  }
  const argument = argumentAt(cursor)
  return argument === null ? [] : values(argument.name, argument.choices)
}

function named(groups: readonly Group[]): Candidate[] {
  return groups.map(({ name, summary }) => ({ value: name, description: summary }))
}

function summaryOf(verb: Verb): string {
  const operation = operationOf(verb)
  const summary = verb.summary ?? operation?.summary ?? ''
  // Building the schema of every verb would take too long.
  return operation && summary.includes('`') ? inCommandWords(summary, verb, fieldsOf(operation)) : summary
}

function splitOnce(text: string, by: string): [string, string?] {
  const at = text.indexOf(by)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

/** What the words before the cursor mean so far. */
interface Cursor {
  readonly group: Group | null
  readonly verbs: readonly Verb[]
  readonly verb: Verb | null
  readonly command: Command | null
  readonly positional: readonly string[]
  /** Options by name, each with its value if it has one. */
  readonly given: ReadonlyMap<string, string>
  /** The option whose value comes next. */
  readonly pending: Option | null
  readonly isBehindDashes: boolean
}

const nowhere: Cursor = {
  group: null,
  verbs: [],
  verb: null,
  command: null,
  positional: [],
  given: new Map(),
  pending: null,
  isBehindDashes: false,
}

/** Null when no command starts with these words. */
async function walk(words: readonly string[]): Promise<Cursor | null> {
  let cursor: Cursor | null = nowhere
  for (const word of words) {
    cursor = await step(cursor, word)
    if (cursor === null) return null
  }
  return cursor
}

async function step(cursor: Cursor, word: string): Promise<Cursor | null> {
  const { pending } = cursor
  if (pending && (pending.required || !word.startsWith('-'))) {
    return { ...cursor, pending: null, given: new Map([...cursor.given, [pending.long ?? '', word]]) }
  }
  const at = { ...cursor, pending: null }
  if (word === '--' && !at.isBehindDashes) return { ...at, isBehindDashes: true }
  if (word.startsWith('-') && word !== '-' && !at.isBehindDashes)
    return withOption(await ownerOf(at, word), word)
  if (at.group === null) return inGroup(at, word)
  if (at.verb === null) return inVerb(at, word)
  return { ...at, positional: [...at.positional, word] }
}

/** An option that is not global belongs to the default verb when no verb is named. */
async function ownerOf(cursor: Cursor, word: string): Promise<Cursor> {
  const [flag] = splitOnce(word, '=')
  return ofAll.some(({ long }) => long === flag) ? cursor : ((await meantVerb(cursor)) ?? cursor)
}

async function meantVerb(cursor: Cursor): Promise<Cursor | null> {
  const meant = cursor.verb === null ? cursor.verbs.find(({ isDefault }) => isDefault) : undefined
  return meant === undefined ? null : withVerb(cursor, meant)
}

function withOption(cursor: Cursor, word: string): Cursor {
  const [flag, inline] = splitOnce(word, '=')
  const option = optionsAt(cursor).find(({ long, short }) => long === flag || short === flag)
  const given = new Map([...cursor.given, [option?.long ?? flag, inline ?? '']])
  const takesValue = option !== undefined && (option.required || option.optional)
  return { ...cursor, given, pending: takesValue && inline === undefined ? option : null }
}

async function inGroup(cursor: Cursor, word: string): Promise<Cursor | null> {
  const group = catalogue.find(({ name, alias }) => name === word || alias === word)
  if (group === undefined) return null
  const verbs = await group.load()
  const [only] = verbs
  const at = { ...cursor, group, verbs }
  return group.isSingle && only ? withVerb(at, only) : at
}

/** A word that is not a verb belongs to the default verb. */
async function inVerb(cursor: Cursor, word: string): Promise<Cursor | null> {
  const verb = cursor.verbs.find(({ name }) => name === word)
  if (verb) return withVerb(cursor, verb)
  const meant = await meantVerb(cursor)
  return meant && { ...meant, positional: [word] }
}

async function withVerb(cursor: Cursor, verb: Verb): Promise<Cursor> {
  const group = cursor.group as Group
  const noun = new Command(group.name)
  await fillGroup({ ...group, load: async () => [verb] }, noun, async () => {})
  return { ...cursor, verb, command: group.isSingle ? noun : (noun.commands[0] ?? null) }
}

const ofAll = globalOptions.map(([flags, description]) => new Option(flags, description))

function optionsAt({ command }: Cursor): readonly Option[] {
  return [...(command?.options ?? []), ...ofAll]
}

function optionCandidates(cursor: Cursor): Candidate[] {
  const isOpen = (option: Option) =>
    !option.hidden && (option.parseArg !== undefined || !cursor.given.has(option.long ?? ''))
  return [...optionsAt(cursor).filter(isOpen), new Option('--help', 'what there is')].map((option) => ({
    value: option.long ?? '',
    description: option.description,
  }))
}

function fieldsAt({ verb }: Cursor) {
  const operation = verb ? operationOf(verb) : null
  return operation ? fieldsOf(operation) : null
}

/** The values an option can take, if it is limited to a few. */
function choicesOf(cursor: Cursor, option: Option): readonly string[] {
  const fields = fieldsAt(cursor)
  if (fields === null || cursor.verb === null) return []
  const field = offeredFields(cursor.verb, fields).find((each) => `--${optionName(each)}` === option.long)
  return field?.choices ?? []
}

function argumentAt(cursor: Cursor): { name: string; choices: readonly string[] } | null {
  const all = cursor.command?.registeredArguments ?? []
  const last = all.at(-1)
  const argument = all[cursor.positional.length] ?? (last?.variadic ? last : undefined)
  if (argument === undefined) return null
  const fields = fieldsAt(cursor)
  const positional = cursor.verb && fields ? positionalOf(cursor.verb, fields) : []
  const field = fields?.get(positional[all.indexOf(argument)] ?? '')
  return { name: argument.name(), choices: field?.choices ?? argument.argChoices ?? [] }
}

/** What an argument or option contains, by its name and its noun. */
const holds: Readonly<Record<string, LiveKind | 'files' | readonly string[]>> = {
  queue: 'queues',
  '--queue': 'queues',
  'queue ref': 'items',
  'task ref': 'tasks',
  refs: 'tasks',
  '--task': 'tasks',
  '--depends-on': 'tasks',
  'find ref': 'things',
  'explain id': 'things',
  'lock name': 'locks',
  '--lock': 'locks',
  'msg name': 'agents',
  'agent name': 'agents',
  agent: 'agents',
  'lock to': 'agents',
  'msg to': 'agents',
  'task --to': 'agents',
  '--agent': 'agents',
  '--holder': 'agents',
  '--assignee': 'agents',
  '--owner': 'agents',
  '--sender': 'agents',
  run: 'runs',
  '--run': 'runs',
  message: 'messages',
  'state key': 'documents',
  '--workflow': Object.keys(builtInWorkflows),
  file: 'files',
  path: 'files',
  patterns: 'files',
  '--file': 'files',
  '--path': 'files',
  '--store': 'files',
  '--from': 'files',
  'copy --to': 'files',
  command: 'files',
}

async function valuesFor(name: string, choices: readonly string[], cursor: Cursor, io: Io): Promise<Found> {
  if (choices.length > 0) return choices.map((choice) => ({ value: asWord(choice), description: '' }))
  const held = holds[`${cursor.group?.name} ${name}`] ?? holds[name]
  if (held === undefined || held === 'files') return held ?? []
  if (typeof held !== 'string') return held.map((value) => ({ value, description: '' }))
  return loadNames(held, cursor.positional[0] ?? null, io, globalsOf(cursor))
}

/** A choice that contains a space can also be typed as one word. */
function asWord(choice: string): string {
  return choice.includes(' ') ? choice.toLowerCase().replaceAll(' ', '-') : choice
}

function globalsOf({ given }: Cursor): GlobalOptions {
  const names = ['store', 'agent', 'namespace'] as const
  return Object.fromEntries(
    names.flatMap((name) => (given.has(`--${name}`) ? [[name, given.get(`--${name}`)]] : [])),
  )
}
