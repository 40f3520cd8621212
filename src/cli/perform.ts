/** Carries out one verb: reads its input, acts, stores tokens, shows the answer, returns the exit code. */
import { createReadStream } from 'node:fs'
import * as z from 'zod'
import { errorCodes } from '../error-codes.ts'
import { InvalidError, isHoldfastError, NotFoundError } from '../errors.ts'
import { systemEnvironment } from '../host/system.ts'
import { type AnyOperation, parseInput } from '../operations/operation.ts'
import type { OperationName } from '../operations/table.ts'
import { drawAnswer, exitOf } from './answer.ts'
import { CommandCall, type Input } from './call.ts'
import { confirm } from './confirm.ts'
import { drawn } from './drawing.ts'
import { type Field, fieldsOf, offeredFields, positionalOf, typedName } from './field.ts'
import { type Io, readStdin, readText } from './io.ts'
import { withKnownAnswer } from './known-answer.ts'
import type { Ended } from './lease-file.ts'
import { withNearestName } from './nearest.ts'
import { printJson, printTalk, printText } from './print.ts'
import { type GlobalOptions, inspectSettings, isStoreNamed, readSettings, type Settings } from './settings.ts'
import { type Holding, holdingOf, refusalOf, replacedToken, withOwnToken } from './token.ts'
import { readJson, readOwnOptions, readValue, type Words } from './value.ts'
import type { Verb } from './verb.ts'
import { asTyped } from './wording.ts'

/** The words of a command line, as parsed by commander. */
export interface Given {
  readonly positional: readonly (string | readonly string[] | undefined)[]
  /** Keyed by the names of fields and of the verb's own options. */
  readonly options: Readonly<Record<string, Words | undefined>>
}

export async function perform(
  row: Verb,
  operation: AnyOperation | null,
  given: Given,
  io: Io,
  globals: GlobalOptions,
): Promise<number> {
  const verb = withKnownAnswer(row, operation)
  try {
    return await performTyped(verb, operation, given, io, globals)
  } catch (error) {
    throw asTyped(error, verb, operation)
  }
}

async function performTyped(
  verb: Verb,
  operation: AnyOperation | null,
  given: Given,
  io: Io,
  globals: GlobalOptions,
): Promise<number> {
  const settings = await (verb.inspects ? inspectSettings : readSettings)(io, globals)
  for (const note of settings.home.passedOver) printTalk(io, `warning  ${note}`)
  const words = await readInput(verb, operation, given, io)
  const input = verb.shape?.(words, given.options) ?? words
  // Refuse bad input before asking or opening anything, even if the verb does more than run this operation.
  if (operation) assertInput(operation, input)
  const call = new CommandCall({
    io,
    settings,
    isJson: globals.json === true,
    idempotencyKey: globals.idempotencyKey,
    input,
    options: readOwnOptions(verb.options ?? [], given.options),
    rest: operation === null ? given.positional.flat().filter((word) => word !== undefined) : [],
    mayMake: mayMake(verb, given.options, settings),
    // No other process may be running to do it.
    heals: operation?.grants !== undefined,
    lives: verb.lives === true,
  })
  try {
    return await act(verb, operation, call)
  } catch (error) {
    throw await withNearestName(error, call)
  } finally {
    await call.close()
  }
}

/** Checks only the fields that are present. Those the verb adds itself, such as a token, may still be missing. */
function assertInput(operation: AnyOperation, input: Input): void {
  if (!(operation.input instanceof z.ZodObject)) return
  const given = Object.fromEntries(Object.keys(input).map((name) => [name, true])) as Record<string, true>
  parseInput({ name: operation.name, input: operation.input.pick(given as never) }, input)
}

function mayMake({ makesStore }: Verb, options: Input, settings: Settings): boolean {
  const makes = typeof makesStore === 'function' ? makesStore(options) : makesStore
  return makes === 'always' || (makes === 'named' && isStoreNamed(settings))
}

async function act(verb: Verb, operation: AnyOperation | null, call: CommandCall): Promise<number> {
  const isRefused = await askFirst(verb, call)
  if (isRefused) return 1
  const { forPid } = call.options
  if (typeof forPid === 'string') await call.bindTo(forPid)
  const holding = await holdingOf(verb, operation, call)
  if (holding?.token !== undefined) call.input = { ...call.input, token: holding.token }
  const answer = await acted(verb, call, holding)
  const isLost = exitOf(verb, answer) === errorCodes.LEASE_LOST.exit
  if (isLost && holding !== null && holding.token === undefined) {
    const refusal = await refusalOf(call, holding)
    if (refusal !== null) throw withOwnToken(refusal, call, holding)
  }
  noting(call, () => remember(verb, call, holding, answer))
  if (answer === null && verb.missing) throw notFound(verb.missing(call.input))
  await show(verb, operation, call, answer)
  return exitOf(verb, answer)
}

/** Asks for confirmation on a terminal. Elsewhere nobody can answer, so `--yes` must have been given. */
async function askFirst(verb: Verb, call: CommandCall): Promise<boolean> {
  if (!verb.asks || call.options.yes === true || call.input.dryRun === true) return false
  const question = await verb.asks(call)
  if (question === null) return false
  if (call.io.canAsk) return !(await confirm(question))
  throw new InvalidError({
    what: `${question} There is no terminal to ask on`,
    next: 'try --dry-run first; --yes skips the question',
  })
}

async function acted(verb: Verb, call: CommandCall, holding: Holding | null): Promise<unknown> {
  try {
    if (verb.act) return await verb.act(call)
    return await call.execute(verb.operation as OperationName, call.input)
  } catch (error) {
    if (holding === null || !isHoldfastError(error)) throw error
    // Without a token nothing can have been lost; with one, whoever holds it now has taken it.
    const isDoubtful = error.code === (holding.token === undefined ? 'LEASE_LOST' : 'HELD')
    const refusal = (isDoubtful ? await refusalOf(call, holding) : null) ?? error
    if (refusal.code === 'LEASE_LOST') noting(call, () => end(call, holding, 'lost'))
    throw withOwnToken(refusal, call, holding)
  }
}

function remember(verb: Verb, call: CommandCall, holding: Holding | null, answer: unknown): void {
  const { now } = call.view
  for (const { agent, former, ...grant } of verb.grants?.(answer, call) ?? []) {
    if (agent === undefined)
      call.leases.keep(grant, grant.token, now, { instead: replacedToken(call, grant) })
    else call.leases.of(agent).keepTransferred(grant, grant.token, now, former)
  }
  if (holding?.token === undefined || verb.grants) return
  if (exitOf(verb, answer) === errorCodes.LEASE_LOST.exit) end(call, holding, 'lost')
  else if (!verb.isOver?.(answer)) call.leases.touch(holding, holding.token, now)
  else if (verb.completes) end(call, holding, 'done')
  else call.leases.forget(holding, holding.token)
}

function end(call: CommandCall, holding: Holding | null, how: Ended): void {
  if (holding?.token === undefined) return
  call.leases.end(holding, holding.token, how, { instead: replacedToken(call, holding) })
}

/** The change is already committed, so a file that cannot be written must not hide the answer and its token. */
function noting(call: CommandCall, note: () => void): void {
  try {
    note()
  } catch (error) {
    const why = (error as Error).message
    printTalk(
      call.io,
      `warning  the lease file cannot be written (${why}); pass the token with --token from now on`,
    )
  }
}

function notFound(what: string): NotFoundError {
  return new NotFoundError({ what, next: 'check the name, and the store with `holdfast config print`' })
}

async function show(
  verb: Verb,
  operation: AnyOperation | null,
  call: CommandCall,
  answer: unknown,
): Promise<void> {
  const record = verb.json ? verb.json(answer, call.input) : asObject(named(verb, answer))
  // Everything has been printed already, perhaps because the store is gone: do not ask it how to draw nothing.
  if (record === null) return
  if (call.isJson) {
    printJson(call.io, record)
    return
  }
  await call.lookAround()
  const text = drawAnswer(verb, operation, answer, call)
  if (drawn(text) !== '') printText(call.io, text)
  const hint = call.io.isTalkSeen ? verb.hint?.(answer, call.input) : null
  if (hint) call.say(hint)
}

/** Every verb that returns one thing of a kind shows it under the same noun. */
function named({ noun }: Verb, answer: unknown): unknown {
  return noun === undefined ? answer : { [noun]: answer }
}

/** Null for undefined, the answer of a stream. */
function asObject(answer: unknown): object | null {
  if (answer === undefined) return null
  const isObject = typeof answer === 'object' && answer !== null && !Array.isArray(answer)
  return isObject ? answer : { result: answer }
}

async function readInput(verb: Verb, operation: AnyOperation | null, given: Given, io: Io): Promise<Input> {
  if (operation === null) return {}
  const now = systemEnvironment.now()
  const fields = fieldsOf(operation)
  const input: Record<string, unknown> = { ...verb.fixed }
  for (const [index, name] of positionalOf(verb, fields).entries()) {
    const words = given.positional[index]
    const field = fields.get(name) as Field
    if (words === undefined || (Array.isArray(words) && words.length === 0)) continue
    const isBody = name === verb.body && words === '-'
    input[name] = isBody
      ? bodyValue(field, await readStdin(io))
      : readValue({ ...field, typed: typedName(field, true) }, severalOf(field, words), now)
  }
  // Only offered fields: an option of the verb itself may use the name of a hidden field.
  for (const field of offeredFields(verb, fields)) {
    const { name } = field
    const words = given.options[name]
    if (words === undefined) continue
    input[name] = readValue({ ...field, typed: typedName(field, false) }, words, now)
  }
  const { file } = given.options
  if (verb.body !== undefined && typeof file === 'string') {
    if (input[verb.body] !== undefined) throw twice(verb.body)
    const text = file === '-' ? await readStdin(io) : await readBodyFile(file)
    input[verb.body] = bodyValue(fields.get(verb.body) as Field, text)
  }
  return input
}

/** A field with several values that is not the last argument takes them as one word, separated by commas. */
function severalOf(field: Field, words: string | readonly string[]): Words {
  if (field.kind !== 'texts' || typeof words !== 'string') return words
  const several = words.split(',').map((word) => word.trim())
  return several.length === 1 ? words : several
}

function bodyValue(field: Field, text: string): unknown {
  return field.kind === 'json' ? readJson(field.name, text.trimEnd()) : text
}

async function readBodyFile(path: string): Promise<string> {
  try {
    return await readText(createReadStream(path), path)
  } catch (cause) {
    if (isHoldfastError(cause)) throw cause
    throw new NotFoundError({
      what: `--file: ${path} cannot be read`,
      next: 'give the path of a text file, or - for stdin',
      facts: { path },
      cause,
    })
  }
}

function twice(name: string): InvalidError {
  return new InvalidError({
    what: `the ${name} was given twice, in the command and by --file`,
    next: 'give it once',
  })
}
