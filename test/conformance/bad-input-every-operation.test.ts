/** Bad input for every operation, generated from the table: refused with an explanation, and nothing changes. */
import { type Holdfast, isHoldfastError } from 'holdfast'
import { expect, test } from 'vitest'
import { operations } from '../../src/operations/table.ts'
import { type Hostile, hostileInputs, type Samples, soundInput } from '../support/hostile-input.ts'
import { claimed } from '../support/outcomes.ts'
import { isQuick } from '../support/quick.ts'
import { forEachEngine, type Opened, type Store, whenReadable } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

forEachEngine((engine) => {
  const options = { agent: 'ada', background: false, durability: 'normal' } as const
  /** What reads leave as it was, which is looked at after each, serves them all. */
  let forReads: Promise<Furnished> | null = null
  const furnishedFor = (effect: string): Promise<Furnished> => {
    if (effect !== 'read') return engine.open(options).then(furnish)
    forReads ??= engine.openForAll(options).then(furnish)
    return forReads
  }

  test.each([...operations.values()].filter(isTried).map(({ name }) => name))(
    '%s refuses bad input in words, changes nothing, and a read answers what its schema declares [X4] [S5c-27]',
    async (name) => {
      const { input, effect } = operations.get(name) ?? expect.fail('it is in the table')
      const { hf, store, there } = await furnishedFor(effect)
      const samples = samplesFor(name, there)
      const cases = hostileInputs(input, samples)
      const before = await contents(hf, store)

      const refused = await answersOtherThan(
        ['INVALID'],
        hf,
        name,
        cases.filter(({ mustRefuse }) => mustRefuse),
      )
      const keys = effect === 'read' ? [] : await acceptedKeys(hf, name, soundInput(input, samples))
      const after = await contents(hf, store)
      const others = await answersOtherThan(
        refusals,
        hf,
        name,
        cases.filter(({ mustRefuse }) => !mustRefuse),
      )

      expect([...refused, ...keys, ...others]).toEqual([])
      expect(after).toEqual(before)
      if (effect === 'read') {
        expect(await contents(hf, store)).toEqual(before)
        await expectDeclared(hf, name, soundInput(input, samples))
      }
      await lookAround(hf)
    },
  )

  test('a renewal returns what its schema declares [S5c-27]', async () => {
    const { hf } = await engine.open(options)
    await hf.queue('jobs').add(null)
    const { item } = await claimed(hf.queue('jobs').next())
    const lease = { kind: 'item', token: item.token, leaseMs: 60_000 }

    await expectDeclared(hf, 'lease.renew', {
      leases: [
        { ...lease, id: item.id },
        { ...lease, id: 'lost' },
      ],
    })
  })
})

/** In a quick run only reads: all share one store, and each takes what the rules let through to the engine. */
function isTried({ effect }: { readonly effect: string }): boolean {
  return !isQuick || effect === 'read'
}

/** Whatever else an answer has, nobody who reads the schema knows of it. */
async function expectDeclared(hf: Holdfast, name: string, sound: unknown): Promise<void> {
  const answer = await execute(hf, name, sound).catch(() => null)
  if (answer !== null) expect(asJson(answer)).toEqual(asJson(operations.get(name)?.output.parse(answer)))
}

function asJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}

/** As a program without types calls it. */
function execute(hf: Holdfast, name: string, input: unknown, options = {}): Promise<unknown> {
  return hf.execute(name as never, input as never, options)
}

/** Keys of repetition that are none and yet were not refused. */
async function acceptedKeys(hf: Holdfast, name: string, sound: unknown): Promise<string[]> {
  const wrong: string[] = []
  for (const key of ['', ' ', 'a\nb', 'nul \u0000', 'x'.repeat(256), 7, null]) {
    const answer = await outcomeOf(() => execute(hf, name, sound, { idempotencyKey: key as string }))
    if (answer !== 'INVALID') wrong.push(`idempotency key ${JSON.stringify(key).slice(0, 20)}: ${answer}`)
  }
  return wrong
}

/** What may be answered to input that is sound in itself. */
const refusals = [
  'answered',
  'INVALID',
  'NOT_FOUND',
  'UNKNOWN_RECIPIENT',
  'HELD',
  'DUPLICATE',
  'ILLEGAL_MOVE',
  'ATTEMPTS_EXHAUSTED',
  'VERSION_MISMATCH',
  'LEASE_LOST',
  'FORBIDDEN',
]

async function answersOtherThan(
  expected: readonly string[],
  hf: Holdfast,
  name: string,
  cases: readonly Hostile[],
): Promise<string[]> {
  const answers = await Promise.all(
    cases.map(async ({ what, input, meant }) => ({
      what,
      answer: await outcomeOf(() => execute(hf, name, input), meant),
    })),
  )
  return answers.flatMap(({ what, answer }) => (expected.includes(answer) ? [] : [`${what}: ${answer}`]))
}

/** The code of the refusal, which must say what and what next, or that it was answered. */
async function outcomeOf(call: () => Promise<unknown>, meant?: string): Promise<string> {
  try {
    const asked = call()
    await asked
    return 'answered'
  } catch (error) {
    if (!isHoldfastError(error)) return `thrown as it was: ${error}`.slice(0, 200)
    if (error.what === '' || error.next === '') return `${error.code} without words`
    // What only the runtime can state is refused before anything else is looked at.
    if (error.code === 'INVALID' && error.facts.fact !== undefined) return error.code
    if (meant !== undefined && !error.next.includes(`"${meant}"`)) return `no help: ${error.next}`
    return error.code === 'INTERNAL' ? `INTERNAL: ${error.message}`.slice(0, 200) : error.code
  }
}

/** Everything events rebuild, and the last event. */
async function contents(hf: Holdfast, store: Store): Promise<unknown> {
  await whenReadable(hf)
  const { events } = (await hf.execute('events.list', { newest: true, limit: 1 })) as {
    events: { seq: number }[]
  }
  const [last] = events
  return { last: last?.seq, rows: await store.readTables() }
}

/** Whatever was accepted can be read, and keeps nothing from healing. */
async function lookAround(hf: Holdfast): Promise<void> {
  await Promise.all([
    hf.queue('jobs').list({ limit: 500 }),
    hf.tasks.listTasks({ limit: 500 }),
    hf.locks.list(),
    hf.messages.checkPendingAcks(),
    hf.messages.inbox({ agent: 'bob', all: true }),
    hf.execute('events.list', { limit: 1000 }),
    hf.recovery.detectStaleLocks(),
  ])
  await hf.recovery.detectAndRecoverStale()
  await hf.messages.processRetries()
}

interface Furnished {
  readonly hf: Holdfast
  readonly store: Store
  readonly there: Furniture
}

/** A store in which every operation finds something to act on. */
async function furnish({ hf, store, env }: Opened): Promise<Furnished> {
  const jobs = hf.queue('jobs')
  const main = hf.queue('main', { workflow: 'merge' })
  await Promise.all([
    jobs.add(null, { key: 'held' }),
    main.submit('w1', { headSha: 'abcd' }),
    hf.tasks.addTask('one', { key: 'T-1' }),
    hf.messages.register('bob'),
    hf.state('plan').set({ step: 1 }),
  ])
  const [{ item: held }, { item: merging }, { task }, press, { message }] = await Promise.all([
    claimed(jobs.next()),
    claimed(main.nextWithLock()),
    claimedTask(hf.tasks.claimTaskForAgent('T-1')),
    hf.locks.acquireLock('press', { run: 'run-1' }),
    hf.messages.sendWithAck('bob', { content: 'hello' }),
  ])
  if (press.outcome !== 'acquired') expect.fail('the lock is free')
  await Promise.all([
    jobs.add(null, { key: 'ready' }),
    hf.tasks.addTask('two', { key: 'T-2' }),
    hf.execute('runs.start', { run: 'run-1', lock: 'press', token: press.lock.lease.token }),
  ])
  // A lapsed lease that was taken back, so that there is a history of recoveries.
  await jobs.add(null, { key: 'lost', priority: 0 })
  await claimed(jobs.next({ leaseMs: 0, agent: 'zoe' }))
  await env.advance(1)
  await hf.recovery.detectAndRecoverStale()
  const there = {
    held: held.token,
    merging: merging.token,
    task: task.token,
    press: press.lock.lease.token,
    message: message.id,
  }
  return { hf, store, there }
}

interface Furniture {
  readonly held: number
  readonly merging: number
  readonly task: number
  readonly press: number
  readonly message: string
}

/** Names of things that are there, by where they are asked for. */
function samplesFor(operation: string, there: Furniture): Samples {
  const [noun] = operation.split('.') as [string]
  const isMerge = /Merge|Rebas|Fresh|WithLock|ProcessingLock|LockStale|queue\.(renew|extend)Lock/.test(
    operation,
  )
  const nouns: Record<string, Record<string, unknown>> = {
    queue: isMerge
      ? { queue: 'main', ref: 'w1', token: there.merging }
      : { queue: 'jobs', ref: 'held', token: there.held },
    tasks: { ref: 'T-1', token: there.task, refs: ['T-2'] },
    locks: { name: 'press', token: there.press, patterns: ['src/**'], path: 'src/a.ts' },
    progress: { run: 'run-1', lock: 'press', token: there.press },
    messages: { message: there.message, adapters: ['inbox'], to: 'bob', sender: 'ada' },
    state: { key: 'plan' },
  }
  const everywhere: Record<string, unknown> = {
    reason: 'because',
    leaseMs: 60_000,
    workflow: operation === 'workflow.define' ? ownWorkflow : undefined,
    'error.message': 'no',
    'entries.0.id': operation === 'queue.import' ? '00000000-0000-5000-8000-000000000000' : undefined,
    'entries.0.state': 'pending',
  }
  return (path) => nouns[noun]?.[path] ?? everywhere[path]
}

const ownWorkflow = {
  name: 'mine',
  initial: 'new',
  states: {
    new: { claimTo: 'busy', moves: ['done'] },
    busy: { held: true, lostTo: 'new', moves: ['done'], completeTo: 'done' },
    done: { closed: 'succeeded', moves: [] },
  },
}
