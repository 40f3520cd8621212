/** Real processes on a store in a folder of its own; after each test the processes are killed and the folder is gone. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Event, type Holdfast, type OpenOptions, open, type QueueItem } from 'holdfast'
import { expect } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { openRaw } from '../support/sqlite-file.ts'

/** Long enough for any process on a loaded machine; whatever takes longer will not happen at all. */
const patienceMs = 40_000

/** How long a process is kept: for one test, for all tests of a file, or until the tests' own process ends. */
type Span = 'test' | 'file' | 'run'

const folders: string[] = []
const handles: Holdfast[] = []
const children: Record<Exclude<Span, 'run'>, ChildProcess[]> = { test: [], file: [] }
const strays: number[] = []
const ways: (() => Promise<unknown>)[] = []

/** More than most tests use at once. Each takes 60 MB. */
const maxResting = 6

/**
 * Actors of the present test, and those that survived earlier ones, of any file: loading the package takes longer than
 * most tests. They end with the process that started them.
 */
const employed: { readonly name: string; readonly actor: Actor }[] = []
const resting = new Map<string, Actor[]>()

/** Called after each test (after-tests.ts). */
export async function endTest(): Promise<void> {
  for (const pid of strays.splice(0)) killQuietly(pid)
  await Promise.all([...employed.splice(0).map(putToRest), ...children.test.splice(0).map(killAndWait)])
  await Promise.allSettled(handles.splice(0).map((handle) => handle.close()))
  await Promise.allSettled(ways.splice(0).map((close) => close()))
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
}

/** Called after the last test of each file (after-tests.ts). */
export async function endFile(): Promise<void> {
  await Promise.all(children.file.splice(0).map(killAndWait))
}

/** The path of a store that is not there yet. */
export function newStore(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-crash-'))
  folders.push(folder)
  return join(folder, 'store.db')
}

/** Closed after the test, when nobody needs it any more to leave in good order. */
export function closeAfterHandles(close: () => Promise<unknown>): void {
  ways.push(close)
}

/** A handle of the test's own process. */
export async function openHere(store: string, options: OpenOptions = {}): Promise<Holdfast> {
  const handle = await open(store, { agent: 'test', logger: false, ...options })
  handles.push(handle)
  return handle
}

export function program(name: string): string {
  return fileURLToPath(new URL(`./programs/${name}.mjs`, import.meta.url))
}

export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program to its end, which must come by itself. */
export async function run(
  command: string,
  args: readonly string[],
  {
    env = {},
    input = '',
    patience = patienceMs,
  }: { env?: Readonly<Record<string, string>>; input?: string; patience?: number } = {},
): Promise<Ending> {
  const child = spawn(command, args, { stdio: 'pipe', env: { ...process.env, ...env } })
  child.stdin.end(input)
  children.test.push(child)
  const ending = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text) => {
    ending.stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    ending.stderr += text
  })
  const ended = new Promise<Ending>((resolve) =>
    child.once('close', (code, signal) => resolve({ ...ending, code, signal })),
  )
  return within(`the end of ${args.join(' ')}`, ended, patience)
}

/** Runs the command line against a store and reads the one JSON object it prints. */
export async function runCli(store: string, ...args: string[]): Promise<Record<string, unknown>> {
  const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
  const { stdout, stderr } = await run(process.execPath, [main, ...args, '--store', store, '--json'])
  if (stderr !== '') throw new Error(`the command line said ${stderr}`)
  return JSON.parse(stdout)
}

type Message =
  | { readonly type: 'ready'; readonly pid: number }
  | { readonly type: 'trapped'; readonly point: string }
  | { readonly type: 'handling'; readonly item: string }
  | { readonly type: 'handled'; readonly queue: string; readonly payload: unknown }
  | { readonly type: 'logged'; readonly name: string }
  | { readonly type: 'aborted'; readonly item: string; readonly code: string }
  | { readonly type: 'added'; readonly item: string }
  | { readonly type: 'refused'; readonly code: string; readonly added: number; readonly message: string }
  | { readonly type: 'answer'; readonly number: number; readonly result?: unknown; readonly error?: Refusal }

export interface Refusal {
  readonly code: string
  readonly message: string
  readonly facts: Readonly<Record<string, unknown>>
}

type Told<Type extends Message['type']> = Extract<Message, { type: Type }> & { readonly at: number }

/** A process of the actor program, or any other that tells things. */
export class Actor {
  readonly child: ChildProcess
  readonly #messages: (Message & { at: number })[] = []
  readonly #listeners = new Set<() => void>()
  #orders = 0
  #stderr = ''
  /** Stopped or killed by the test. */
  #isOutOfReach = false

  constructor(child: ChildProcess, span: Span = 'test') {
    this.child = child
    if (span !== 'run') children[span].push(child)
    child.stderr?.setEncoding('utf8').on('data', (text) => {
      this.#stderr += text
    })
    child.on('message', (message: Message) => {
      this.#messages.push({ ...message, at: performance.now() })
      for (const listener of this.#listeners) listener()
    })
    // Not its exit: messages sent before it may still be on their way.
    child.once('disconnect', () => {
      for (const listener of this.#listeners) listener()
    })
  }

  get pid(): number {
    return this.child.pid as number
  }

  /** Closes and forgets everything, so that the next test may have it; false when it does not come to that. */
  async rests(): Promise<boolean> {
    if (!this.child.connected || hasEnded(this.child) || this.#isOutOfReach) return false
    const number = ++this.#orders
    // It may be dying at this moment.
    this.child.send({ number, order: 'rest', facts: {} }, () => {})
    const isAnswer = (message: Told<'answer'>) => message.number === number
    const isAtRest = await within('its rest', this.told('answer', isAnswer), 2_000).then(
      ({ error }) => error === undefined,
      () => false,
    )
    this.#messages.length = 0
    return isAtRest
  }

  /** Gives an order and waits for its answer; a refusal fails the test. */
  async ask<Result = unknown>(
    order: string,
    facts: object = {},
    { patience = patienceMs } = {},
  ): Promise<Result> {
    const { result, error } = await this.order(order, facts, patience)
    if (error) throw new Error(`${order} was refused: ${error.code} ${error.message}`)
    return result as Result
  }

  /** Gives an order that the store is expected to refuse. */
  async askRefusal(order: string, facts: object = {}): Promise<Refusal> {
    const { result, error } = await this.order(order, facts)
    expect(error, `${order} was not refused but answered ${JSON.stringify(result)}`).toBeDefined()
    return error as Refusal
  }

  order(order: string, facts: object = {}, patience = patienceMs): Promise<Told<'answer'>> {
    const number = this.send(order, facts)
    return this.told('answer', (message) => message.number === number, patience)
  }

  /** Gives an order and does not wait: its answer may never come. */
  send(order: string, facts: object = {}): number {
    const number = ++this.#orders
    this.child.send({ number, order, facts })
    return number
  }

  /** The first message that matches, from the past or to come. */
  told<Type extends Message['type']>(
    type: Type,
    matches: (message: Told<Type>) => boolean = () => true,
    patience = patienceMs,
  ): Promise<Told<Type>> {
    const find = () => this.all(type).find(matches)
    const waiting = new Promise<Told<Type>>((resolve, reject) => {
      const look = () => {
        const found = find()
        if (!found && this.child.connected) return
        this.#listeners.delete(look)
        if (found) resolve(found)
        else reject(new Error(`process ${this.pid} ended before it told "${type}": ${this.#stderr}`))
      }
      this.#listeners.add(look)
      look()
    })
    return within(`"${type}" of process ${this.pid}`, waiting, patience)
  }

  all<Type extends Message['type']>(type: Type): Told<Type>[] {
    return this.#messages.filter((message): message is Told<Type> => message.type === type)
  }

  kill(signal: NodeJS.Signals = 'SIGKILL'): void {
    this.#isOutOfReach = signal !== 'SIGCONT'
    this.child.kill(signal)
  }

  /** Waits until the process is gone and says by which signal. */
  async ended({ patience = patienceMs } = {}): Promise<NodeJS.Signals | null> {
    if (!hasEnded(this.child))
      await within(
        `the end of process ${this.pid}`,
        new Promise((resolve) => this.child.once('exit', resolve)),
        patience,
      )
    return this.child.signalCode
  }
}

/** An actor of this program that has nothing open: one that served an earlier test, or a new one. */
export async function startActor(name = 'actor'): Promise<Actor> {
  const actor = resting.get(name)?.pop() ?? (await startProgram(name, { span: 'run' }))
  employed.push({ name, actor })
  return actor
}

/** An actor that the file itself keeps from test to test. */
export function startOwnActor(name = 'actor'): Promise<Actor> {
  return startProgram(name, { span: 'file' })
}

/** Starts a program that takes orders. */
export async function startProgram(
  name: string,
  {
    span = 'test',
    env = {},
    args = [],
  }: { span?: Span; env?: Readonly<Record<string, string>>; args?: readonly string[] } = {},
): Promise<Actor> {
  const child = fork(program(name), args, {
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    env: { ...process.env, ...env },
  })
  const actor = new Actor(child, span)
  await actor.told('ready')
  return actor
}

export interface ActorOptions extends OpenOptions {
  /** Says of itself to be another process than it is. */
  readonly identity?: {
    readonly bootId?: string
    readonly pid?: number
    readonly startTime?: string
    readonly isOfEarlierBoot?: boolean
  }
}

/** Starts an actor with the store open. */
export async function openActor(store: string, options: ActorOptions = {}): Promise<Actor> {
  const actor = await startActor()
  await actor.ask('open', { store, ...options })
  return actor
}

/** An actor whose parent never asks how it ended: killed, it stays in the process table as a zombie. */
export async function startUnreapedActor(): Promise<{ actor: Actor; pid: number }> {
  const script = '"$0" "$1" & exec sleep 600'
  const child = spawn('sh', ['-c', script, process.execPath, program('actor')], {
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  })
  const actor = new Actor(child)
  const { pid } = await actor.told('ready')
  strays.push(pid)
  return { actor, pid }
}

/** A claim that must succeed. */
export async function claimBy(
  actor: Actor,
  queue: string,
  options: { leaseMs?: number; renew?: boolean } = {},
): Promise<QueueItem<unknown>> {
  const claim = await actor.ask<{ outcome: string; item: QueueItem<unknown> }>('next', { queue, ...options })
  expect(claim).toMatchObject({ outcome: 'claimed' })
  return claim.item
}

/** Waits for the next renewal of what an actor has claimed. False when the lease was lost before. */
export async function isRenewed(hf: Holdfast, { queue, id, token }: QueueItem<unknown>): Promise<boolean> {
  const look = async () => {
    const item = await hf.queue(queue).get(id)
    return item?.phase === 'held' && item.token === token ? item.lease?.renewedAt : undefined
  }
  const before = await look()
  await until('its lease was renewed or lost', async () => (await look()) !== before)
  return (await look()) !== undefined
}

/**
 * The thread that renews the actor's leases is up and has renewed one: from here on, what is not renewed is so on
 * purpose. On a busy machine a thread may take longer to load than the first short leases last.
 */
export async function warmUp(hf: Holdfast, actor: Actor): Promise<void> {
  for (let isUp = false; !isUp; ) {
    await hf.queue('warm-up').add('work')
    const item = await claimBy(actor, 'warm-up', { leaseMs: 1500 })
    isUp = await isRenewed(hf, item)
    await hf.queue('warm-up').remove(item.id, { force: true, reason: 'it has served' })
  }
}

/**
 * An item that somebody let lapse comes back, though nobody claims: the thread that heals and renews is at work. For
 * handles that do not heal when they claim.
 */
export async function seeHealing(hf: Holdfast): Promise<void> {
  const q = hf.queue('stale')
  const { item } = await q.add('work')
  await claimed(q.next({ agent: 'gone', leaseMs: 1 }))
  await until('the stale item is healed', async () => (await q.get(item.id))?.phase === 'ready')
  await q.remove(item.id)
}

/** The letter under which the kernel shows a process: R running, S sleeping, T stopped, Z zombie. */
export function stateOf(pid: number): string {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return text.slice(text.lastIndexOf(')') + 2)[0] ?? ''
}

/** Rejects, naming what was waited for, when it does not come. */
async function within<Result>(what: string, promise: Promise<Result>, ms = patienceMs): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not come within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Looks again and again until it is so. For what nobody tells: a process's state, a renewal. The longer it takes, the
 * less often, since to look is work for the store and for the processes that are looked at.
 */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  { patience = patienceMs, lookEveryMs = 25 } = {},
): Promise<void> {
  const startedAt = performance.now()
  while (!(await isSo())) {
    const waitedMs = performance.now() - startedAt
    if (waitedMs > patience) throw new Error(`not so after ${patience} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, Math.min(lookEveryMs, 5 + waitedMs / 10)))
  }
}

/** The first event that matches, from the beginning of the store or to come, and when it was seen. */
export async function eventOf(
  hf: Holdfast,
  what: string,
  matches: (event: Event) => boolean,
): Promise<Event & { readonly seenAt: number }> {
  const events = await auditUntil(hf, what, (all) => all.some(matches))
  return { ...(events.find(matches) as Event), seenAt: performance.now() }
}

/** The audit as soon as it holds enough. Looked at every few milliseconds, because not every event rings. */
export async function auditUntil(
  hf: Holdfast,
  what: string,
  isEnough: (events: readonly Event[]) => boolean,
): Promise<Event[]> {
  const events: Event[] = []
  await until(what, async () => {
    await readOn(hf, events)
    return isEnough(events)
  })
  return events
}

/** The event that gave an item back. */
export function reclaimOf(hf: Holdfast, item: string): Promise<Event & { readonly seenAt: number }> {
  return eventOf(hf, `the reclaim of ${item}`, ({ kind, id }) => kind === 'item.reclaimed' && id === item)
}

/** How often a process that hears of nothing looks for messages. */
const inboxLookMs = 9_000

/**
 * Sends messages one after another to a process that has the store open and does nothing else, and waits for each to be
 * in its inbox. A limit per minute leaves it to that process to put them there. Whoever is told of none finds each with
 * its next look, 9 to 10 s after the one before.
 */
export async function expectHeardAtOnce(store: string): Promise<void> {
  const hf = await openHere(store, { background: false, recovery: false })
  await hf.messages.register('test', { sendsPerMinute: 0 })
  await hf.messages.register('bob', { deliveriesPerMinute: 60 })
  await openActor(store, { agent: 'bob' })
  const delays: number[] = []

  // The first one may be found by the look with which the process begins.
  for (let round = 1; round <= 4; round++) {
    const sentAt = performance.now()
    const { message } = await hf.messages.sendWithAck('bob', { content: round })
    await until('the message is in the inbox', async () => {
      const { messages } = await hf.messages.inbox({ agent: 'bob' })
      return messages.some(({ id }) => id === message.id)
    })
    delays.push(performance.now() - sentAt)
  }

  print(`in the inbox of another process after ${delays.map(Math.round).join(', ')} ms`)
  expect(Math.max(...delays)).toBeLessThan(inboxLookMs / 2)
}

/** The whole audit. */
export async function audit(hf: Holdfast): Promise<Event[]> {
  const events: Event[] = []
  await readOn(hf, events)
  return events
}

async function readOn(hf: Holdfast, events: Event[]): Promise<void> {
  for (;;) {
    const since = events.at(-1)?.seq ?? 0
    const { events: page } = (await hf.execute('events.list', { since, limit: 1000 })) as { events: Event[] }
    if (page.length === 0) return
    events.push(...page)
  }
}

/** How often something happened to each thing. */
export function countById(events: readonly Event[], kind: Event['kind']): Map<string, number> {
  const counts = new Map<string, number>()
  for (const event of events) if (event.kind === kind) counts.set(event.id, (counts.get(event.id) ?? 0) + 1)
  return counts
}

/** Every one of these items was completed exactly once and no other was. */
export function expectCompletedOnce(events: readonly Event[], ids: readonly string[]): void {
  const completions = countById(events, 'item.completed')
  const lost = ids.filter((id) => !completions.has(id))
  const repeated = [...completions].filter(([, count]) => count !== 1)
  expect({ lost, repeated, completed: completions.size }).toEqual({
    lost: [],
    repeated: [],
    completed: ids.length,
  })
}

/** SQLite finds no damage, and nothing is held by anybody. */
export function expectSoundAndFree(store: string): void {
  expectSound(store)
  expect(
    query(store, 'select id, agent, instance from item where agent is not null or expires_at is not null'),
  ).toEqual([])
  expect(query(store, 'select name from lock')).toEqual([])
}

export function expectSound(store: string): void {
  expect(query(store, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }])
  expect(query(store, 'pragma foreign_key_check')).toEqual([])
}

/** Asks the file itself, past Holdfast. */
export function query(store: string, sql: string): unknown[] {
  const database = openRaw(store)
  try {
    return database
      .prepare(sql)
      .all()
      .map((row) => ({ ...(row as object) }))
  } finally {
    database.close()
  }
}

/** `npm run test:crash`, which has time for everything. */
export const isThorough = process.env.HOLDFAST_TEST_ROUNDS === 'all'

/** How often: a few times in `npm test`, and in `npm run test:crash` often enough for a race that is rarely lost. */
export function often({ few, many }: { readonly few: number; readonly many: number }): number {
  return isThorough ? many : few
}

/** Payloads of so many items. */
export function numbered(count: number): { payload: { number: number } }[] {
  return Array.from({ length: count }, (_, number) => ({ payload: { number } }))
}

/** The value below which this share of the values lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
}

/** A figure for the reader; what must hold is asserted beside it. */
export function print(text: string): void {
  console.log(text)
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

async function killAndWait(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}

async function putToRest({ name, actor }: { name: string; actor: Actor }): Promise<void> {
  const rests = await actor.rests()
  const others = resting.get(name) ?? []
  if (!rests || others.length >= maxResting) return killAndWait(actor.child)
  resting.set(name, [...others, actor])
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}
