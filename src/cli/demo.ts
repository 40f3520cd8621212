/**
 * The demo: real processes on a temporary store. Kills workers with `kill -9` in the middle of an item, freezes one
 * past its lease, and checks from the audit that every item was finished exactly once.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Holdfast } from '../handle/holdfast.ts'
import { open } from '../handle/open.ts'
import { systemEnvironment } from '../host/system.ts'
import { Fleet } from './demo-fleet.ts'
import { type Drawing, type Drawn, line, lines } from './drawing.ts'
import { whileInterruptible } from './interrupt.ts'
import { printText } from './print.ts'
import type { Call } from './verb.ts'
import type { View } from './view.ts'

/** Pending items at the start of the demo and of each round, so that there is always a busy worker to kill. */
const itemsAtHand = 40
const killCount = 5
const workerCount = 4
const queueName = 'demo'

export interface Findings {
  readonly items: number
  readonly done: number
  readonly duplicates: number
  readonly lost: number
  readonly kills: number
  readonly healP50Ms: number
  readonly healP95Ms: number
  readonly frozenReplaced: boolean
  readonly lateCompletionRefused: boolean
  readonly seconds: number
}

type Story = Pick<Call, 'io' | 'isJson' | 'view'>
type Say = (text: Drawn) => void

/** Returns the result, and prints what happens along the way. */
export function demo(story: Story): Promise<Findings & { readonly ok: boolean }> {
  return whileInterruptible((signal) => demoUntil(signal, story), 'everything it created was removed')
}

async function demoUntil(signal: AbortSignal, story: Story): Promise<Findings & { readonly ok: boolean }> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-demo-'))
  try {
    const store = join(folder, 'store.db')
    const hf = await open(store, { agent: 'demo', logger: false })
    const fleet = new Fleet(store, queueName)
    try {
      return await unlessInterrupted(tell(hf, fleet, story), signal)
    } finally {
      await fleet.stop()
      await hf.close()
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function tell(hf: Holdfast, fleet: Fleet, story: Story): Promise<Findings & { readonly ok: boolean }> {
  const { colors } = story.view
  const say: Say = (text) => {
    if (!story.isJson) printText(story.io, text)
  }
  const started = systemEnvironment.monotonic()
  say(colors.bold('Holdfast demo: work that heals by itself'))
  say(lines([`One store file, ${workerCount} worker processes.`, '']))
  await topUp(hf)
  for (let number = 0; number < workerCount; number++) await fleet.start()

  const healMs = await killWorkers(hf, fleet, say, colors)
  const frozen = await freezeWorker(hf, fleet, say, colors)
  await untilAllDone(hf)
  const findings = await check(hf, healMs, frozen, (systemEnvironment.monotonic() - started) / 1000)
  return { ...findings, ok: isSound(findings) }
}

/** On an interrupt, ends at once; the caller then cleans up. */
async function unlessInterrupted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  // Errors it runs into after its store is closed do not matter.
  work.catch(() => {})
  const interruption = new Promise<never>((_, reject) => {
    const stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
  return Promise.race([work, interruption])
}

async function topUp(hf: Holdfast): Promise<void> {
  const queue = hf.queue(queueName)
  const atHand = (await queue.peek()) === null ? 0 : (await queue.stats()).pending
  const missing = itemsAtHand - atHand
  if (missing > 0)
    await queue.addMany(Array.from({ length: missing }, (_, number) => ({ payload: { number } })))
}

/** In each round, kills a worker in the middle of an item and waits until another has claimed that item. */
async function killWorkers(hf: Holdfast, fleet: Fleet, say: Say, colors: View['colors']): Promise<number[]> {
  say(colors.bold(`1. kill -9 in the middle of an item, ${killCount} times`))
  const healMs: number[] = []
  for (let round = 0; round < killCount; round++) {
    await topUp(hf)
    const victim = await fleet.workingOne()
    const again = claimedAgain(hf, victim.item)
    const killedAt = systemEnvironment.now()
    fleet.kill(victim.name)
    const { agent: successor, at } = await again
    const ms = at - killedAt
    healMs.push(ms)
    say(
      line`   ${colors.red('killed')} ${victim.name} holding ${short(victim.item)}  ${colors.green('→')} ${successor} took it over after ${colors.bold(`${Math.round(ms)} ms`)}`,
    )
    await fleet.start()
  }
  return healMs
}

/** Freezes a worker until its lease has lapsed and another has finished its item, then lets it continue, too late. */
async function freezeWorker(hf: Holdfast, fleet: Fleet, say: Say, colors: View['colors']) {
  say(lines(['', colors.bold('2. freeze a worker (SIGSTOP) past its 2 s lease, then resume it')]))
  await topUp(hf)
  const victim = await fleet.workingOne()
  const finished = finishedByAnother(hf, victim.item, victim.name)
  fleet.freeze(victim.name)
  say(
    line`   ${colors.yellow('frozen')} ${victim.name} holding ${short(victim.item)}; alive, so nobody takes it before its lease lapses`,
  )
  const { agent: successor } = await finished
  say(line`   ${colors.green('→')} ${successor} finished it`)
  const answer = fleet.answerOf(victim.name, victim.item)
  fleet.thaw(victim.name)
  const refusal = await answer
  say(line`   ${colors.yellow('thawed')} ${victim.name} reports completion: ${colors.bold(refusal)}`)
  return { replaced: successor !== victim.name, refused: refusal === 'LEASE_LOST' }
}

/** Who did it, and when. */
interface Happening {
  readonly agent: string
  readonly at: number
}

function claimedAgain(hf: Holdfast, item: string): Promise<Happening> {
  return nextEvent(hf, (event) => event.kind === 'item.claimed' && event.id === item)
}

function finishedByAnother(hf: Holdfast, item: string, than: string): Promise<Happening> {
  return nextEvent(
    hf,
    (event) => event.kind === 'item.completed' && event.id === item && event.agent !== than,
  )
}

async function nextEvent(
  hf: Holdfast,
  matches: (event: { kind: string; id: string; agent: string | null }) => boolean,
): Promise<Happening> {
  const newest = await hf.execute('events.list', { newest: true, limit: 1 })
  for await (const event of hf.events({ since: newest.events[0]?.seq ?? 0 })) {
    if (matches(event)) return { agent: event.agent ?? 'nobody', at: event.at }
  }
  throw new Error('the store closed before it happened')
}

async function untilAllDone(hf: Holdfast): Promise<void> {
  const allDone = async () => {
    const { completed, total } = await hf.queue(queueName).stats()
    return completed === total
  }
  if (await allDone()) return
  for await (const event of hf.events()) {
    if (event.kind === 'item.completed' && (await allDone())) return
  }
}

/** Counts from the audit trail, not from what the workers report. */
async function check(
  hf: Holdfast,
  healMs: number[],
  frozen: { replaced: boolean; refused: boolean },
  seconds: number,
): Promise<Findings> {
  const completions = new Map<string, number>()
  for (let since = 0; ; ) {
    const { events } = await hf.execute('events.list', { since, limit: 1000 })
    if (events.length === 0) break
    for (const event of events) {
      since = event.seq
      if (event.kind === 'item.completed') completions.set(event.id, (completions.get(event.id) ?? 0) + 1)
    }
  }
  const items = (await hf.queue(queueName).stats()).total
  const sorted = healMs.toSorted((left, right) => left - right)
  const quantile = (share: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0)
  return {
    items,
    done: completions.size,
    duplicates: [...completions.values()].filter((count) => count > 1).length,
    lost: items - completions.size,
    kills: healMs.length,
    healP50Ms: quantile(0.5),
    healP95Ms: quantile(0.95),
    frozenReplaced: frozen.replaced,
    lateCompletionRefused: frozen.refused,
    seconds: Math.round(seconds * 10) / 10,
  }
}

function isSound(findings: Findings): boolean {
  return (
    findings.duplicates === 0 &&
    findings.lost === 0 &&
    findings.frozenReplaced &&
    findings.lateCompletionRefused
  )
}

export function findingsText(findings: Findings, { colors, table }: View): Drawing {
  const head = ['items', 'finished', 'duplicates', 'lost', 'killed', 'heal p50', 'p95', 'late completion']
  const row = [
    findings.items,
    findings.done,
    findings.duplicates,
    findings.lost,
    findings.kills,
    `${findings.healP50Ms} ms`,
    `${findings.healP95Ms} ms`,
    findings.lateCompletionRefused ? 'refused' : 'ACCEPTED',
  ]
  const verdict = isSound(findings)
    ? colors.green(`Every guarantee held, in ${findings.seconds} s.`)
    : colors.red('A guarantee did not hold.')
  return lines(['', table(head, [row]), '', verdict])
}

function short(id: string): string {
  return `item …${id.slice(-6)}`
}
