/**
 * Calls from plain JavaScript: every method of every noun, with arguments and options that are missing, of another type,
 * or no JSON. Each is answered or refused in words; nothing throws a TypeError, and nobody reads the words of a library.
 */
import { type Holdfast, isHoldfastError, open } from 'holdfast'
import { expect, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

type Method = (...args: unknown[]) => unknown

const circle: Record<string, unknown> = {}
circle.self = circle

/** Values that are no sound argument anywhere, or not everywhere. */
const strange: readonly unknown[] = [
  undefined,
  null,
  '',
  'x',
  5,
  -1,
  Number.NaN,
  true,
  10n,
  Symbol('s'),
  circle,
  Object.create(null),
  Buffer.from('bytes'),
  [],
  ['x'],
  {},
  () => {},
  new Map(),
]

const optionNames =
  'agent token idempotencyKey instance renew signal waitMs leaseMs reason to from headSha testedAgainstSha maxAgeMs thresholdMs extraMs content priority key data payload result progress note labels total outcomes cursor keys run lock limit after states runAt everyMs concurrency kind fix since prefix schema expectedVersion maxAttempts pid'.split(
    ' ',
  )

/** What waits, goes on in the background, or is the end of the handle. */
const left = new Set(['constructor', 'close', 'waitForWork'])

/** The words of the schema library and of the language. */
const foreignWords =
  /Invalid input|Invalid option|expected .* received|Too (big|small)|Unrecognized key|is not iterable|Cannot read|Cannot convert|undefined \(reading/

forEachEngine((engine) => {
  const nouns = [
    'hf',
    'queue',
    'tasks',
    'locks',
    'runs',
    'messages',
    'agents',
    'fleet',
    'state',
    'states',
    'recovery',
  ]
  let opened: Promise<Record<string, object>> | null = null

  test.each(nouns)(
    'a method of %s, given anything at all, returns or refuses with an explanation [S5-19] [S5-35]',
    async (noun) => {
      opened ??= engine.openInRealTimeForAll({ agent: 'ada' }).then(({ hf }) => nounsOf(hf))
      const of = (await opened)[noun] ?? expect.fail('there is such a noun')
      const wrong: string[] = []

      for (const name of methodsOf(of)) {
        const method = (of as Record<string, Method>)[name] as Method
        // All at once: on a server each would be a round trip of its own.
        const calls = argumentsFor(method).map(async (args) => {
          const fault = await faultOf(() => method.apply(of, args as unknown[]))
          if (fault !== null) wrong.push(`${noun}.${name}(${args.map(shown).join(', ')}): ${fault}`)
        })
        await Promise.all(calls)
      }

      expect([...new Set(wrong)].slice(0, 40)).toEqual([])
    },
    90_000,
  )

  const required: Record<string, (hf: Holdfast) => unknown> = {
    'locks.forceRelease': ({ locks }) => (locks.forceRelease as Method)('a'),
    'locks.forceReleaseAgent': ({ locks }) => (locks.forceReleaseAgent as Method)('ada'),
    'locks.transfer': ({ locks }) => (locks.transfer as Method)('a'),
    'queue.extendLock': (hf) => (hf.queue('q').extendLock as Method).call(hf.queue('q')),
    'queue.cleanup': (hf) => Reflect.apply(hf.queue('q').cleanup, hf.queue('q'), []),
    'queue.submit': (hf) => Reflect.apply(hf.queue('q').submit, hf.queue('q'), ['w1']),
    'queue.updateRebaseMetadata': (hf) =>
      Reflect.apply(hf.queue('q').updateRebaseMetadata, hf.queue('q'), ['w1']),
    'queue.fail': (hf) => Reflect.apply(hf.queue('q').fail, hf.queue('q'), ['w1']),
    'queue.failMerge': (hf) => Reflect.apply(hf.queue('q').failMerge, hf.queue('q'), ['w1']),
    'runs.record': ({ runs }) => Reflect.apply(runs.record, runs, ['r']),
    'runs.fail': ({ runs }) => Reflect.apply(runs.fail, runs, ['r']),
    'messages.sendWithAck': ({ messages }) => Reflect.apply(messages.sendWithAck, messages, ['ada']),
    open: () => Reflect.apply(open, null, []),
    'open({})': () => Reflect.apply(open, null, [{}]),
    'open(null)': () => Reflect.apply(open, null, [null]),
    'open of something else': () => Reflect.apply(open, null, [Symbol('s'), { agent: 'ada' }]),
    'open with options that are none': () => Reflect.apply(open, null, [':memory:', 5]),
  }
  test.each(Object.keys(required))('%s without what it needs is INVALID [S5-19]', async (name) => {
    const { hf } = await engine.open({ agent: 'ada' })

    const error = await refusal(() => (required[name] as (hf: Holdfast) => unknown).call(hf.locks, bound(hf)))

    expect(error.code).toBe('INVALID')
    expect(error.message).not.toMatch(foreignWords)
    expect(error.next).not.toBe('')
  })
})

/** Methods keep their object where they are taken off it. */
function bound(hf: Holdfast): Holdfast {
  const locks = Object.fromEntries(
    methodsOf(hf.locks).map((name) => [name, (Reflect.get(hf.locks, name) as Method).bind(hf.locks)]),
  )
  return {
    queue: hf.queue.bind(hf),
    messages: hf.messages,
    locks,
    runs: hf.runs,
  } as never
}

function nounsOf(hf: Holdfast): Record<string, object> {
  return {
    hf,
    queue: hf.queue('jobs'),
    tasks: hf.tasks,
    locks: hf.locks,
    runs: hf.runs,
    messages: hf.messages,
    agents: hf.agents,
    fleet: hf.fleet,
    state: hf.state('plan'),
    states: { list: hf.state.list, state: hf.state },
    recovery: hf.recovery,
  }
}

function methodsOf(noun: object): string[] {
  const prototype = Object.getPrototypeOf(noun) as object
  const owner = prototype === Object.prototype ? noun : prototype
  return Object.getOwnPropertyNames(owner).filter((name) => {
    const { value } = Object.getOwnPropertyDescriptor(owner, name) ?? {}
    return typeof value === 'function' && !left.has(name)
  })
}

/** Each argument in turn is strange; then each option. */
function argumentsFor(method: Method): unknown[][] {
  const count = Math.max(method.length, 1) + 1
  const sound = ['x', 'y', {}, {}]
  const places = Array.from({ length: count }, (_, place) => place)
  const strangeArguments = places.flatMap((place) =>
    strange.map((value) => [...sound.slice(0, place), value, ...(place + 1 < count ? [{}] : [])]),
  )
  // A third of the values for each name, another third for the next: each kind of value meets many names.
  const strangeOptions = optionNames.flatMap((name, turn) =>
    strange
      .filter((_, index) => index % 3 === turn % 3)
      .map((value, index) => [...sound.slice(0, [1, count - 1][index % 2]), { [name]: value }]),
  )
  return [[], ...strangeArguments, ...strangeOptions]
}

/** Null when it was answered or refused as it should be. */
async function faultOf(call: () => unknown): Promise<string | null> {
  try {
    const answer = await first(call())
    const { stop } = Object(answer) as { stop?: unknown }
    if (typeof stop === 'function') await stop.call(answer)
    return null
  } catch (error) {
    if (!isHoldfastError(error)) return `thrown as it was: ${String(error)}`.slice(0, 160)
    if (error.code === 'INTERNAL') return `INTERNAL: ${error.message}`.slice(0, 160)
    if (foreignWords.test(error.message)) return `foreign words: ${error.message}`.slice(0, 160)
    return null
  }
}

/** Of what goes on for ever, the first. */
async function first(answer: unknown): Promise<unknown> {
  if (typeof answer !== 'object' || answer === null || !(Symbol.asyncIterator in answer)) return answer
  const iterator = answer as AsyncGenerator
  try {
    await Promise.race([iterator.next(), new Promise((done) => setImmediate(() => setImmediate(done)))])
  } finally {
    void iterator.return(undefined)
  }
}

function shown(value: unknown): string {
  if (typeof value === 'object' && value !== null && !(value instanceof Map) && value !== circle) {
    const parts = Object.entries(value).map(
      ([name, part]) => `${name}: ${Object(part) === part ? 'object' : String(part)}`,
    )
    return `{ ${parts.join(', ')} }`
  }
  return typeof value === 'object' ? Object.prototype.toString.call(value) : String(value)
}
