/** A store with some of everything, made through the public API; and what the API reports about it. */
import type { Holdfast, Workflow } from 'holdfast'

const hour = 3_600_000

const review: Workflow = {
  name: 'review',
  initial: 'open',
  failsRetryably: true,
  retryForgives: true,
  states: {
    open: { claimTo: 'reading', moves: ['reading'] },
    reading: { held: true, lostTo: 'open', moves: ['read', 'open'], completeTo: 'read', failTo: 'open' },
    read: { closed: 'succeeded', moves: [] },
  },
}

/** Grants that are still held when the store is copied. */
export interface Grants {
  readonly item: { readonly id: string; readonly token: number }
  readonly lock: { readonly name: string; readonly token: number }
}

/** Every lease in it is a manual one: `hf` is a handle without a process behind it. */
export async function populate(hf: Holdfast): Promise<Grants> {
  const item = await populateQueues(hf)
  await populateTasks(hf)
  const lock = await populateLocks(hf)
  await populateMessages(hf)
  await populateState(hf)
  await hf.recovery.detectAndRecoverStale()
  // The oldest events go, and leave images and a checkpoint.
  await hf.execute('events.seal', { past: { from: Date.now(), ageMs: 0 }, through: 20 })
  await hf.execute('retention.settle', { agesMs: [hour] })
  await populateCrowd(hf)
  return { item, lock }
}

async function populateQueues(hf: Holdfast): Promise<Grants['item']> {
  const jobs = hf.queue('jobs', { maxAttempts: 2 })
  const first = await jobs.add(
    { text: 'NUL \0, a surrogate pair 🦀 and "quotes"' },
    { key: 'first', priority: 1 },
  )
  const held = await claimed(jobs.next({ agent: 'holder', leaseMs: hour }))
  await jobs.progress(held.id, { at: 3 }, { agent: 'holder', token: held.token })
  const second = await jobs.add('done', { dedupeKey: 'once' })
  const done = await claimed(jobs.next({ agent: 'doer' }))
  await jobs.complete(done.id, { agent: 'doer', token: done.token, result: { sum: 7 } })
  await jobs.add('failed', { maxAttempts: 1 })
  const failing = await claimed(jobs.next({ agent: 'doer' }))
  await jobs.fail(failing.id, 'it broke', { agent: 'doer', token: failing.token })
  await jobs.cancel((await jobs.add('cancelled')).item.id, { reason: 'not needed' })
  await jobs.add('later', { runAt: Date.now() + hour })
  await jobs.add('stacked', { parent: first.item.id })
  await jobs.add('waits', { blockers: [first.item.id] })
  await jobs.add('waits for nobody', { blockers: [second.item.id] })
  const gone = await jobs.add('removed', { key: 'gone', priority: 0 })
  const taken = await claimed(jobs.next({ agent: 'doer' }))
  await jobs.complete(taken.id, { agent: 'doer', token: taken.token })
  await jobs.remove(gone.item.id, { reason: 'raises the floor' })
  await jobs.add('lapses', { priority: 0 })
  await jobs.next({ agent: 'sleeper', leaseMs: 0 })
  await hf.execute('queue.add', { queue: 'jobs', payload: 'keyed' }, { idempotencyKey: 'key-1' })
  await hf.queue('reviews', { workflow: review }).add({ page: 1 })
  await hf.queue('paused').add('kept back')
  await hf.queue('paused').pause({ reason: 'lunch' })
  const merges = hf.queue('main', { workflow: 'merge' })
  await merges.submit('branch-a', { headSha: 'aaaa' })
  await merges.submit('branch-b', { headSha: 'bbbb' })
  await merges.nextWithLock({ agent: 'merger', leaseMs: hour })
  return { id: held.id, token: held.token }
}

async function claimed(
  claim: Promise<{ outcome: string; item?: { id: string; token: number } }>,
): Promise<{ id: string; token: number }> {
  const { outcome, item } = await claim
  if (item === undefined) throw new Error(`not claimed but ${outcome}`)
  return item
}

async function populateTasks(hf: Holdfast): Promise<void> {
  const task = await hf.tasks.addTask('Write the guide', {
    body: 'long',
    labels: ['docs'],
    paths: ['docs/**'],
  })
  await hf.tasks.claimTaskForAgent(task.id, { agent: 'writer', leaseMs: hour })
  await hf.tasks.addTask('Read the guide', { dependsOn: [task.id] })
  await hf.tasks.addTask('Print the guide', { labels: ['docs'], owner: 'olga', host: 'press' })
}

async function populateLocks(hf: Holdfast): Promise<Grants['lock']> {
  const { locks } = hf
  const held = await locks.acquireLock('deploy', {
    agent: 'holder',
    leaseMs: hour,
    run: 'run-1',
    reason: 'x',
  })
  if (held.outcome !== 'acquired') throw new Error('the lock was not free')
  const { token } = held.lock.lease
  await hf.runs.start('run-1', { lock: 'deploy', agent: 'holder', token, total: 9 })
  await hf.runs.record('run-1', {
    agent: 'holder',
    token,
    cursor: { page: 2 },
    outcomes: [
      { key: 'a', outcome: 'done' },
      { key: 'b', outcome: 'failed', error: 'no' },
    ],
  })
  await hf.execute('locks.acquireLock', { name: 'deploy', wait: true })
  const gate = await locks.acquireLock('gate', { agent: 'holder', leaseMs: hour })
  if (gate.outcome !== 'acquired') throw new Error('the gate was not free')
  await locks.acquireLock('seats', { agent: 'one', slots: 2, leaseMs: hour })
  await locks.acquireLock('seats', { agent: 'two', slots: 2, leaseMs: hour })
  await locks.reserve(['src/**', 'docs/*.md'], { agent: 'holder', mode: 'shared', leaseMs: hour })
  const brief = await locks.acquireLock('brief', { agent: 'holder' })
  if (brief.outcome === 'acquired')
    await locks.releaseLock('brief', { agent: 'holder', token: brief.lock.lease.token })
  await locks.acquireLock('delayed', { agent: 'sleeper', leaseMs: 0, delayMs: hour })
  return { name: 'gate', token: gate.lock.lease.token }
}

async function populateMessages(hf: Holdfast): Promise<void> {
  const { messages } = hf
  messages.adapter('nowhere', {
    async send() {
      return { outcome: 'failed', error: 'nobody there', transient: true }
    },
  })
  await messages.register('bob', { deliveriesPerMinute: 2 })
  await messages.register('carol')
  await messages.register('dave', { adapter: 'nowhere' })
  const many = Array.from({ length: 12 }, (_, number) => `helper-${number}`)
  for (const name of many) await messages.register(name)
  const answered = await messages.sendWithAck('carol', { content: { ask: 1 } })
  await messages.receiveAck(answered.message.id, { agent: 'carol' })
  await messages.sendWithAck('bob', { content: 'unanswered', ladder: [{ to: ['carol'], waitMs: 60_000 }] })
  await messages.sendWithAck(['bob', 'carol', 'dave'], { content: 'to many', quorum: 2 })
  // More than nine, whose ids do not sort in the order they were made.
  await messages.sendWithAck(many, { content: 'to all helpers' })
  await messages.processRetries()
  await messages.sendWithAck('carol', { content: 'cancelled', agent: 'erin' })
  await messages.clearPendingAcks({ sender: 'erin', reason: 'not needed' })
}

async function populateState(hf: Holdfast): Promise<void> {
  await hf.state('config').set({ rounds: 1 })
  await hf.state('config').update((value) => ({ ...(value as object), rounds: 2 }))
  await hf.state('gone').set(1)
  await hf.state('gone').set(2)
  await hf.state('gone').delete()
}

/** More than a page of rows. */
async function populateCrowd(hf: Holdfast): Promise<void> {
  const queue = hf.queue('crowd')
  const { item } = await queue.add('awaited')
  await Promise.all(
    Array.from({ length: 120 }, (_, number) => queue.add({ number }, { blockers: [item.id] })),
  )
}

/**
 * Times of leases differ from store to store, and what is counted from them from moment to moment; how much of them is
 * left is asked apart.
 */
const leaseTimes = new Set([
  'runningSince',
  'delayedSince',
  'ratePerSecond',
  'etaMs',
  'waiting',
  'grantedAt',
  'renewedAt',
  'expiresAt',
  'remainingMs',
  'elapsedMs',
  'activeMs',
  'since',
  'nextDueAt',
  'nextAttemptAt',
  'dueAt',
  'givesUpAt',
  'dueInMs',
  'givesUpInMs',
  'oldestReadyMs',
  'assignedAt',
  'lockUntil',
  'recoveryTimestamp',
])

/** Everything the API reports about a store, without its lease times. */
export async function describeStore(hf: Holdfast): Promise<Record<string, unknown>> {
  const told: Record<string, unknown> = {}
  for (const name of ['jobs', 'reviews', 'paused', 'main', 'tasks', 'crowd']) {
    const queue = hf.queue(name)
    told[`queue ${name}`] = [
      await queue.stats(),
      await all((after) => queue.list({ limit: 500, ...after }), 'items'),
    ]
    told[`lock of ${name}`] = await queue.getProcessingLock()
  }
  told.tasks = await hf.tasks.listTasks()
  told.locks = await hf.locks.list()
  told.deploy = await hf.locks.getCurrentLockInfo('deploy')
  told.runs = await hf.runs.list()
  told.outcomes = await hf.runs.outcomes('run-1')
  told.pending = await hf.messages.checkPendingAcks()
  told.dead = await hf.messages.listDeadLetters()
  for (const agent of ['bob', 'carol', 'helper-3'])
    told[`inbox of ${agent}`] = await hf.messages.inbox({ agent })
  told.documents = await hf.state.list({ prefix: '' })
  told.config = [await hf.state('config').get(), await hf.state('config').history()]
  told.recovery = await hf.recovery.getRecoveryStats()
  told.agents = await hf.agents.list()
  told.images = await hf.execute('events.images', { limit: 500 })
  told.events = await everyEvent(hf)
  return JSON.parse(JSON.stringify(told, (field, value) => (leaseTimes.has(field) ? undefined : value)))
}

async function everyEvent(hf: Holdfast): Promise<unknown[]> {
  const events: { seq: number }[] = []
  for (;;) {
    const since = events.at(-1)?.seq ?? 0
    const { events: page } = (await hf.execute('events.list', { since, limit: 1000 })) as {
      events: { seq: number }[]
    }
    if (page.length === 0) return events
    events.push(...page)
  }
}

async function all<Field extends string, Row>(
  load: (after: { after?: string }) => Promise<{ next: string | null } & Record<Field, Row[]>>,
  field: Field,
): Promise<Row[]> {
  const rows: Row[] = []
  for (let after: string | null = null; ; ) {
    const page: { next: string | null } & Record<Field, Row[]> = await load(after === null ? {} : { after })
    rows.push(...page[field])
    if (page.next === null) return rows
    after = page.next
  }
}
