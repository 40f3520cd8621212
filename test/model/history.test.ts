/**
 * Random histories: several agents use every verb, with tokens old and new, while time passes and holders vanish.
 * Whatever happened, the tables are what the events say, and the audit keeps its promises.
 */
import fc from 'fast-check'
import {
  type AcquireOptions,
  type Event,
  type Holdfast,
  isHoldfastError,
  type Locks,
  type Queue,
  type Runs,
} from 'holdfast'
import { type Replica, renewalFields, replay } from 'holdfast/testing'
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { forEachEngine, type Opened } from '../support/stores.ts'

interface History extends Opened {
  readonly queues: readonly Queue[]
  /** Ids of everything ever added, and tokens ever granted: acts pick from both, also from what is long over. */
  readonly ids: string[]
  readonly tokens: number[]
}

type Act = (history: History, choice: number, other: number) => Promise<unknown>

const agents = ['ada', 'bob', 'cy']
const taskKeys = ['t0', 't1', 't2', 't3']
const pick = <Value>(from: readonly Value[], choice: number): Value | undefined =>
  from[choice % Math.max(1, from.length)]
const agentOf = (choice: number) => pick(agents, choice) as string
const queueOf = (history: History, choice: number) => pick(history.queues, choice) as Queue
const documentOf = (history: History, choice: number) => history.hf.state(`d${choice % 3}`)

const taskAct =
  (
    act: (
      tasks: Holdfast['tasks'],
      ref: string,
      options: { token?: number; agent: string },
    ) => Promise<unknown>,
  ): Act =>
  (history, choice, other) => {
    const token = pick(history.tokens, other)
    return act(history.hf.tasks, pick(taskKeys, choice) as string, {
      agent: agentOf(other),
      ...(token !== undefined && other % 3 > 0 ? { token } : {}),
    })
  }

const onItem =
  (act: (q: Queue, id: string, options: { token?: number; agent: string }) => Promise<unknown>): Act =>
  (history, choice, other) => {
    const token = pick(history.tokens, other)
    return act(queueOf(history, choice), pick(history.ids, choice + other) ?? 'none', {
      agent: agentOf(other),
      ...(token !== undefined && other % 3 > 0 ? { token } : {}),
    })
  }

const lockName = (choice: number) => `lock-${choice % 3}`
const runName = (choice: number) => `run-${choice % 3}`

/** Named locks: the third has two slots, the second a delay; each is held for a run or for none. */
function acquireOptions(choice: number, other: number): AcquireOptions {
  return {
    leaseMs: 1000 * (other % 20),
    slots: choice % 3 === 2 ? 2 : 1,
    delayMs: choice % 3 === 1 ? 2000 : 0,
    reentrant: other % 5 === 0,
    ...(other % 4 === 0 ? {} : { run: runName(other) }),
  }
}

const onLock =
  (
    act: (
      locks: Locks,
      name: string,
      options: { agent: string; token?: number },
      choice: number,
      runs: Runs,
    ) => Promise<unknown>,
  ): Act =>
  (history, choice, other) =>
    act(
      history.hf.locks,
      lockName(choice),
      { agent: agentOf(other), ...(other % 3 > 0 ? {} : { token: pick(history.tokens, choice) ?? 1 }) },
      choice,
      history.hf.runs,
    )

const lockActs: Record<string, Act> = {
  async acquire(history, choice, other) {
    const options = {
      ...acquireOptions(choice, other),
      ...(other % 3 === 0 ? {} : { agent: agentOf(other) }),
    }
    const answer = await history.hf.locks.acquireLock(lockName(choice), options)
    if (answer.outcome === 'acquired') history.tokens.push(answer.lock.lease.token)
  },
  async waitForLock(history, choice, other) {
    const options = { ...acquireOptions(choice, other), agent: agentOf(other), waitMs: 100 * (other + 1) }
    const waiting = attempt(
      async () => {
        const answer = await history.hf.locks.acquireLock(lockName(choice), options)
        if (answer.outcome === 'acquired') history.tokens.push(answer.lock.lease.token)
      },
      history,
      choice,
      other,
    )
    await history.env.advance(100 * choice)
    await history.env.advance(4000)
    await waiting
  },
  unlock: onLock((locks, name, options) => locks.releaseLock(name, options)),
  renewNamed: onLock((locks, name, options) => locks.renewLock(name, options)),
  force: onLock((locks, name) => locks.forceRelease(name, { reason: 'because' })),
  transfer: onLock((locks, name, { agent }) => locks.transfer(name, { to: agent, reason: 'because' })),
  async reserve(history, choice, other) {
    const pattern = ['src/**', 'src/a.ts', 'docs/*.md'][choice % 3] as string
    const mode = other % 2 === 0 ? 'shared' : 'exclusive'
    await history.hf.locks.reserve(pattern, { agent: agentOf(other), mode, leaseMs: 1000 * (choice % 9) })
  },
  start: onLock((_locks, name, options, choice, runs) =>
    runs.start(runName(choice), { ...options, lock: name, total: 5 }),
  ),
  record: onLock((_locks, _name, options, choice, runs) =>
    runs.record(runName(choice), {
      ...options,
      done: 1,
      cursor: choice,
      outcomes: [{ key: `key-${choice % 4}`, outcome: choice % 2 === 0 ? 'done' : 'failed' }],
    }),
  ),
  pauseRun: onLock((_locks, _name, _options, choice, runs) => runs.pause(runName(choice))),
  resumeRun: onLock((_locks, name, options, choice, runs) =>
    runs.resume(runName(choice), { ...options, lock: name }),
  ),
  reopen: onLock((_locks, _name, _options, choice, runs) => runs.reopen(runName(choice), { total: 20 })),
  removeRun: onLock((_locks, _name, _options, choice, runs) => runs.remove(runName(choice))),
}

const acts: Record<string, Act> = {
  async add(history, choice, other) {
    const parent = other % 4 === 0 ? pick(history.ids, other) : undefined
    const { item } = await queueOf(history, choice).add(choice, {
      priority: choice % 4,
      ...(choice % 3 === 0 ? { key: `k${choice % 5}` } : {}),
      ...(other % 5 === 0 ? { runAt: history.env.now() + choice * 100 } : {}),
      ...(parent === undefined ? {} : { parent }),
    })
    history.ids.push(item.id)
  },
  async submit(history, choice, other) {
    const { item } = await queueOf(history, choice).submit(`k${choice % 5}`, { headSha: `abc${other}` })
    if (!history.ids.includes(item.id)) history.ids.push(item.id)
  },
  async claim(history, choice, other) {
    const claim = await queueOf(history, choice).next({
      agent: agentOf(other),
      leaseMs: 1000 * (choice % 40),
    })
    if (claim.outcome === 'claimed') history.tokens.push(claim.item.token)
  },
  async claimBound(history, choice) {
    const claim = await queueOf(history, choice).next({ leaseMs: 3000 })
    if (claim.outcome === 'claimed') history.tokens.push(claim.item.token)
  },
  complete: onItem((q, id, options) => q.complete(id, options)),
  fail: onItem((q, id, options) => q.fail(id, 'no luck', options)),
  release: onItem((q, id, options) => q.release(id, options)),
  renew: onItem((q, id, options) => q.renew(id, options)),
  progress: onItem((q, id, options) => q.progress(id, { at: id }, options)),
  rebase: onItem((q, id, options) => q.move(id, 'rebasing', options)),
  test: onItem((q, id, options) =>
    q.updateRebaseMetadata(id, { ...options, headSha: 'head1', testedAgainstSha: 'base1' }),
  ),
  ready: onItem((q, id, options) => q.move(id, 'ready_to_merge', options)),
  back: onItem((q, id, options) => q.returnToRebasing(id, 'base2', options)),
  begin: onItem((q, id, options) => q.beginMerge(id, options)),
  merge: onItem((q, id, options) => q.completeMerge(id, 'sha1', options)),
  cancel: onItem((q, id) => q.cancel(id)),
  retry: onItem((q, id) => q.retry(id)),
  prioritize: onItem((q, id) => q.setPriority(id, 2)),
  remove: onItem((q, id) => q.remove(id, { force: true })),
  unquarantine: onItem((q, id) => q.releaseFromQuarantine(id)),
  extendLock: (history, choice, other) =>
    queueOf(history, choice).extendLock({ agent: agentOf(other), extraMs: 5000 }),
  renewLock: (history, choice, other) => queueOf(history, choice).renewLock({ agent: agentOf(other) }),
  releaseLock: (history, choice, other) =>
    queueOf(history, choice).releaseProcessingLock({ agent: agentOf(other) }),
  ...lockActs,
  pause: (history, choice) => queueOf(history, choice).pause(),
  resume: (history, choice) => queueOf(history, choice).resume(),
  reclaim: (history, choice, other) => queueOf(history, choice).reclaimStale({ thresholdMs: other * 1000 }),
  recover: (history) => history.hf.recovery.detectAndRecoverStale(),
  cleanup: (history, choice) => queueOf(history, choice).cleanup({ maxAgeMs: choice * 1000 }),
  set: (history, choice, other) => documentOf(history, choice).set(other % 4, { agent: agentOf(other) }),
  setExpected: (history, choice, other) =>
    documentOf(history, choice).set(choice, { expectedVersion: other % 6 }),
  update: (history, choice, other) =>
    documentOf(history, choice).update((value) => (other % 5 === 0 ? undefined : Number(value) + 1)),
  forget: (history, choice, other) =>
    documentOf(history, choice).delete(other % 2 ? {} : { expectedVersion: 1 + (other % 7) }),
  addTask: (history, choice, other) =>
    history.hf.tasks.addTask(`task ${choice}`, {
      key: pick(taskKeys, choice) as string,
      labels: [`l${other % 3}`],
      dependsOn: other % 4 === 0 ? [pick(taskKeys, other) as string] : [],
    }),
  async claimTask(history, choice, other) {
    const claim = await history.hf.tasks.claimTaskForAgent(pick(taskKeys, choice) as string, {
      agent: agentOf(other),
      leaseMs: 1000 * (choice % 10),
      fromReview: other % 2 === 0,
    })
    if (claim.outcome === 'claimed') history.tokens.push(claim.task.token)
  },
  async nextTask(history, choice, other) {
    const claim = await history.hf.tasks.claimNext({ agent: agentOf(other), labels: [`l${choice % 3}`] })
    if (claim.outcome === 'claimed') history.tokens.push(claim.task.token)
  },
  batchClaim: (history, choice, other) =>
    history.hf.tasks.batchClaim(taskKeys.slice(choice % 4), { agent: agentOf(other), leaseMs: 2000 }),
  noteTask: taskAct((tasks, ref, options) => tasks.updateTask(ref, { ...options, note: ref, progress: ref })),
  waitTask: (history, choice, other) =>
    history.hf.tasks.updateTask(pick(taskKeys, choice) as string, {
      dependsOn: [pick(taskKeys, other) as string],
      force: true,
      reason: 'by entropy',
    }),
  reviewTask: taskAct((tasks, ref, options) => tasks.reviewTask(ref, options)),
  completeTask: taskAct((tasks, ref, options) => tasks.completeTask(ref, { ...options, result: ref })),
  releaseTask: taskAct((tasks, ref, options) => tasks.releaseTask(ref, { ...options, note: 'back' })),
  handoff: (history, _choice, other) =>
    history.hf.tasks.handoff({ agent: agentOf(other), note: 'bye', to: 'cy' }),
  register: (history, _choice, other) => history.hf.agents.register({ agent: agentOf(other) }),
  cleanupTasks: (history, choice) =>
    history.hf.tasks.cleanupExpiredLocksWithReport({ maxAgeMs: choice * 100 }),
  wait: (history, choice) => history.env.advance(choice * 500),
  sleep: async (history, choice) => history.env.suspend(choice * 100_000),
}

const step = fc.record({ act: fc.constantFrom(...Object.keys(acts)), choice: fc.nat(60), other: fc.nat(30) })

forEachEngine((engine) => {
  test('after any history the tables match the events, apart from renewal times [Q25] [X2] [Z8]', async () => {
    const seed = Number(process.env.HOLDFAST_TEST_SEED ?? Date.now() % 1_000_000)
    const property = fc.asyncProperty(fc.array(step, { minLength: 60, maxLength: 120 }), async (steps) => {
      const opened = await engine.open()
      const queues = [opened.hf.queue('jobs'), opened.hf.queue('main', { workflow: 'merge' })]
      const history: History = { ...opened, queues, ids: [], tokens: [] }

      for (const { act, choice, other } of steps) await attempt(acts[act] as Act, history, choice, other)

      const feed = await readFeed(history.hf)
      expect(rebuilt(feed)).toEqual(promised(await opened.store.readTables()))
      expect(tokensNeverRepeat(feed)).toBe(true)
      expect(versionsNeverRepeat(feed)).toBe(true)
    })

    await fc.assert(property, { numRuns: 25, seed, endOnFailure: true })
  })
})

/** A refusal is part of the game; a fault of the store is not. */
async function attempt(act: Act, history: History, choice: number, other: number): Promise<void> {
  try {
    await act(history, choice, other)
  } catch (error) {
    if (!isHoldfastError(error) || error.code === 'INTERNAL' || error.code === 'STORE_UNFIT') throw error
  }
}

function rebuilt(feed: readonly Event[]): Map<string, object> {
  const replica: Replica = new Map()
  for (const event of feed) replay(replica, event as Parameters<typeof replay>[1])
  return promised(replica as Map<string, Record<string, unknown>>)
}

/** What a replay promises: every field but the renewal times; a field never set is null. */
function promised(rows: ReadonlyMap<string, Record<string, unknown>>): Map<string, object> {
  return new Map(
    [...rows].map(([key, row]) => [
      key,
      Object.fromEntries(
        Object.entries(row).filter(([field, value]) => value !== null && !renewalFields.has(field)),
      ),
    ]),
  )
}

function tokensNeverRepeat(feed: readonly Event[]): boolean {
  const granted = new Map<string, number>()
  return feed
    .filter(({ kind }) => kind === 'item.claimed' || kind === 'lock.acquired' || kind === 'lock.stolen')
    .every(({ subject, id, token }) => {
      const last = granted.get(`${subject}:${id}`) ?? 0
      granted.set(`${subject}:${id}`, token as number)
      return (token as number) > last
    })
}

/** Not even after a document was deleted and made again. */
function versionsNeverRepeat(feed: readonly Event[]): boolean {
  const saved = feed.filter(({ kind }) => kind === 'state.set').map(({ id, version }) => `${id} ${version}`)
  return new Set(saved).size === saved.length
}
