/**
 * What may stand where the cursor is: `holdfast complete -- words…`, asked by the scripts of the shells at every tab.
 * Never an error, never a store that was not there; quick, and silent where nothing is known.
 */
import { Command, Option } from 'commander'
import { printable } from '../domain/text.ts'
import { builtInWorkflows } from '../domain/workflow.ts'
import { catalogue, type Group } from './catalogue.ts'
import { fieldsOf, offeredFields, optionName } from './field.ts'
import type { Io } from './io.ts'
import { type LiveKind, loadNames } from './live-names.ts'
import { fillGroup, globalOptions, operationOf } from './program.ts'
import type { GlobalOptions } from './settings.ts'
import type { Verb } from './verb.ts'

export interface Candidate {
  readonly value: string
  readonly description: string
}

/** Answered instead of names: the shell knows files best. */
const files = ':files'
const candidatesMax = 500

/** The last word is the one at the cursor. Answers lines of `value<tab>description`, or `:files`. */
export async function complete(words: readonly string[], io: Io): Promise<string[]> {
  try {
    const found = await candidatesFor(words, io)
    if (found === 'files') return [files]
    const current = words.at(-1) ?? ''
    const isMeant = ({ value }: Candidate) => value.startsWith(current)
    return found.filter(isMeant).slice(0, candidatesMax).map(lineOf)
  } catch {
    // Somebody is typing: there is nobody to tell.
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
  const place = current.startsWith('-') ? ((await meantVerb(walked)) ?? walked) : walked
  const values = (name: string, choices: readonly string[]) => valuesFor(name, choices, place, io)
  if (place.pending?.required) return values(place.pending.long ?? '', choicesOf(place, place.pending))
  if (place.isBehindDashes) return 'files'
  const [flag = '', inline] = current.startsWith('--') ? splitOnce(current, '=') : []
  if (inline !== undefined) {
    const option = optionsAt(place).find(({ long }) => long === flag)
    const found = option ? await values(flag, choicesOf(place, option)) : []
    return found === 'files'
      ? found
      : found.map(({ value, description }) => ({ value: `${flag}=${value}`, description }))
  }
  if (current.startsWith('-')) return optionCandidates(place)
  if (place.group === null) return named(catalogue.filter(({ isHidden }) => !isHidden))
  if (place.verb === null) {
    const verbs = place.verbs.filter(({ isHidden }) => !isHidden)
    return verbs.map((verb) => ({ value: verb.name, description: summaryOf(verb) }))
  }
  const argument = argumentAt(place)
  return argument === null ? [] : values(argument.name, argument.choices)
}

function named(groups: readonly Group[]): Candidate[] {
  return groups.map(({ name, summary }) => ({ value: name, description: summary }))
}

function summaryOf(verb: Verb): string {
  return verb.summary ?? operationOf(verb)?.summary ?? ''
}

function splitOnce(text: string, by: string): [string, string?] {
  const at = text.indexOf(by)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

/** Where the words before the cursor lead. */
interface Place {
  readonly group: Group | null
  readonly verbs: readonly Verb[]
  readonly verb: Verb | null
  readonly command: Command | null
  readonly positional: readonly string[]
  /** Option, and its value where there is one. */
  readonly given: ReadonlyMap<string, string>
  /** The option whose value comes next. */
  readonly pending: Option | null
  readonly isBehindDashes: boolean
}

const nowhere: Place = {
  group: null,
  verbs: [],
  verb: null,
  command: null,
  positional: [],
  given: new Map(),
  pending: null,
  isBehindDashes: false,
}

/** Null: no command begins so. */
async function walk(words: readonly string[]): Promise<Place | null> {
  let place: Place | null = nowhere
  for (const word of words) {
    place = await step(place, word)
    if (place === null) return null
  }
  return place
}

async function step(place: Place, word: string): Promise<Place | null> {
  const { pending } = place
  if (pending && (pending.required || !word.startsWith('-'))) {
    return { ...place, pending: null, given: new Map([...place.given, [pending.long ?? '', word]]) }
  }
  const at = { ...place, pending: null }
  if (word === '--' && !at.isBehindDashes) return { ...at, isBehindDashes: true }
  if (word.startsWith('-') && word !== '-' && !at.isBehindDashes)
    return withOption(await ownerOf(at, word), word)
  if (at.group === null) return inGroup(at, word)
  if (at.verb === null) return inVerb(at, word)
  return { ...at, positional: [...at.positional, word] }
}

/** An option that not every command has belongs to the verb that is meant when none is named. */
async function ownerOf(place: Place, word: string): Promise<Place> {
  const [flag] = splitOnce(word, '=')
  return ofAll.some(({ long }) => long === flag) ? place : ((await meantVerb(place)) ?? place)
}

async function meantVerb(place: Place): Promise<Place | null> {
  const meant = place.verb === null ? place.verbs.find(({ isDefault }) => isDefault) : undefined
  return meant === undefined ? null : withVerb(place, meant)
}

function withOption(place: Place, word: string): Place {
  const [flag, inline] = splitOnce(word, '=')
  const option = optionsAt(place).find(({ long, short }) => long === flag || short === flag)
  const given = new Map([...place.given, [option?.long ?? flag, inline ?? '']])
  const takesValue = option !== undefined && (option.required || option.optional)
  return { ...place, given, pending: takesValue && inline === undefined ? option : null }
}

async function inGroup(place: Place, word: string): Promise<Place | null> {
  const group = catalogue.find(({ name, alias }) => name === word || alias === word)
  if (group === undefined) return null
  const verbs = await group.load()
  const [only] = verbs
  const at = { ...place, group, verbs }
  return group.isSingle && only ? withVerb(at, only) : at
}

/** A word that is no verb belongs to the verb that is meant when none is named. */
async function inVerb(place: Place, word: string): Promise<Place | null> {
  const verb = place.verbs.find(({ name }) => name === word)
  if (verb) return withVerb(place, verb)
  const meant = await meantVerb(place)
  return meant && { ...meant, positional: [word] }
}

async function withVerb(place: Place, verb: Verb): Promise<Place> {
  const group = place.group as Group
  const noun = new Command(group.name)
  await fillGroup({ ...group, load: async () => [verb] }, noun, async () => {})
  return { ...place, verb, command: group.isSingle ? noun : (noun.commands[0] ?? null) }
}

const ofAll = globalOptions.map(([flags, description]) => new Option(flags, description))

function optionsAt({ command }: Place): readonly Option[] {
  return [...(command?.options ?? []), ...ofAll]
}

function optionCandidates(place: Place): Candidate[] {
  const isOpen = (option: Option) =>
    !option.hidden && (option.parseArg !== undefined || !place.given.has(option.long ?? ''))
  return [...optionsAt(place).filter(isOpen), new Option('--help', 'what there is')].map((option) => ({
    value: option.long ?? '',
    description: option.description,
  }))
}

function fieldsAt({ verb }: Place) {
  const operation = verb ? operationOf(verb) : null
  return operation ? fieldsOf(operation) : null
}

/** The words an option may have, where these are few. */
function choicesOf(place: Place, option: Option): readonly string[] {
  const fields = fieldsAt(place)
  if (fields === null || place.verb === null) return []
  const field = offeredFields(place.verb, fields).find((each) => `--${optionName(each)}` === option.long)
  return field?.choices ?? []
}

function argumentAt(place: Place): { name: string; choices: readonly string[] } | null {
  const all = place.command?.registeredArguments ?? []
  const last = all.at(-1)
  const argument = all[place.positional.length] ?? (last?.variadic ? last : undefined)
  if (argument === undefined) return null
  const field = fieldsAt(place)?.get(place.verb?.positional?.[all.indexOf(argument)] ?? '')
  return { name: argument.name(), choices: field?.choices ?? argument.argChoices ?? [] }
}

/** What an argument or option holds, by its name and the noun it stands under. */
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

async function valuesFor(name: string, choices: readonly string[], place: Place, io: Io): Promise<Found> {
  if (choices.length > 0) return choices.map((choice) => ({ value: asWord(choice), description: '' }))
  const held = holds[`${place.group?.name} ${name}`] ?? holds[name]
  if (held === undefined || held === 'files') return held ?? []
  if (typeof held !== 'string') return held.map((value) => ({ value, description: '' }))
  return loadNames(held, place.positional[0] ?? null, io, globalsOf(place))
}

/** A choice with a blank is also known by a word without one. */
function asWord(choice: string): string {
  return choice.includes(' ') ? choice.toLowerCase().replaceAll(' ', '-') : choice
}

function globalsOf({ given }: Place): GlobalOptions {
  const names = ['store', 'agent', 'namespace'] as const
  return Object.fromEntries(
    names.flatMap((name) => (given.has(`--${name}`) ? [[name, given.get(`--${name}`)]] : [])),
  )
}
