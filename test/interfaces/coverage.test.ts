/** Everything Holdfast can do can be done from a program and from a shell, in one way each. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { listCommands } from '../../dist/cli/reference.js'
import { operations } from '../../src/operations/table.ts'

const offered = [...operations.values()].filter((row) => row.class === undefined).map(({ name }) => name)
const commands = await listCommands()

/** The nouns of the handle, and what serves several of them. A noun is a file or a folder. */
const nouns = [
  ...readdirSync('src/handle').map((name) => `src/handle/${name}`),
  'src/runtime/session',
  'src/runtime/lease/stale-locks.ts',
].map((path) => ({ path, text: withoutTypes(textIn(path)) }))

/** A type that is derived from an operation does not call it. */
function withoutTypes(text: string): string {
  return text.replace(/\b(?:OptionsFor|AskedOf)<\s*'[^']+'/g, '')
}

function textIn(path: string): string {
  if (path.endsWith('.ts')) return readFileSync(path, 'utf8')
  return readdirSync(path)
    .map((name) => textIn(`${path}/${name}`))
    .join('\n')
}

/** More than one command, or none. */
const otherCommands: Record<string, string> = {
  'agents.register': 'agent register takes a pid, and the kernel says the rest',
  'queue.retry': 'queue retry-failed retries all that failed',
  'queue.list': 'queue quarantine is a list with its own columns',
  'state.get': 'state watch shows a document again and again',
}

/** More than one noun that calls it, or none. */
const otherCalls: Record<string, string> = {
  'events.list': 'all events, those of an item, and those of a message are three views of one list',
  'events.images': 'only a program that rebuilds a store from its events needs it, and has execute()',
}

/** Fields that no option of a command says. */
const unoffered: Record<string, string> = {
  'queue.addMany items': 'they come from a file or stdin',
  'queue.fail backoff': 'a person says whether to try again, and the queue says when',
  'queue.failMerge backoff': 'as for queue.fail',
  'queue.list states': 'queue quarantine asks for one thing; queue list offers it',
  'queue.list phase': 'queue quarantine asks for one thing; queue list offers it',
  'queue.list retryable': 'queue quarantine asks for one thing; queue list offers it',
  'queue.retry ref': 'queue retry-failed finds the items itself',
  'queue.retry expectedVersion': 'queue retry-failed finds the items itself',
  'events.list newest': 'the newest are the default; --oldest and --since say otherwise',
  'events.list kinds': 'its own --kind says it, as for events follow',
  'events.list queue': 'its own --queue says it, as for events follow',
  'locks.acquireLock wait': '--wait takes a duration',
  'locks.acquireLock waiter': '--wait keeps its place itself',
  'locks.reserve holding': 'the tokens kept beside the store say it',
}

test('each operation has one command, or a listed reason [S6-4]', () => {
  const counts = offered.map((name) => [name, commands.filter(({ operation }) => operation === name).length])
  const others = counts.filter(([, count]) => count !== 1).map(([name]) => name)

  expect(others.sort()).toEqual(Object.keys(otherCommands).sort())
})

test('each operation has one library call, or a listed reason [S6-4]', () => {
  const callers = (name: string) => nouns.filter(({ text }) => text.includes(`'${name}'`))
  const others = offered.filter((name) => callers(name).length !== 1)

  expect(others.sort()).toEqual(Object.keys(otherCalls).sort())
})

test('an operation needs an operator’s reason exactly if its row says so [S6-4]', () => {
  const requiresReason = ({ input }: { input: unknown }) => {
    const { reason } =
      (input as { shape?: Record<string, { safeParse(value: unknown): { success: boolean } }> }).shape ?? {}
    return reason !== undefined && !reason.safeParse(undefined).success && !reason.safeParse(' ').success
  }
  const rows = [...operations.values()]

  const declared = rows.filter((row) => row.needsReason).map(({ name }) => name)

  expect(rows.filter(requiresReason).map(({ name }) => name)).toEqual(declared)
  expect(declared).toContain('locks.forceRelease')
})

test('each input field of an operation can be given on the command line, or has a listed reason [S6-4]', () => {
  const hidden = commands.flatMap(({ operation, hides }) =>
    offered.includes(operation ?? '') ? hides.map((field) => `${operation} ${field}`) : [],
  )

  expect([...new Set(hidden)].sort()).toEqual(Object.keys(unoffered).sort())
})
