/**
 * `holdfast demo`: real processes on a temporary store. Kills workers with `kill -9` in the middle of an item, freezes one
 * past its lease, and checks from the audit that every item was finished exactly once.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Holdfast } from '../../handle/holdfast.ts'
import { open } from '../../handle/open.ts'
import { systemEnvironment } from '../../host/system.ts'
import { allPages } from '../../runtime/session/pages.ts'
import { Fleet } from '../demo-fleet.ts'
import { type Drawing, type Drawn, line, lines } from '../drawing.ts'
import { whileInterruptible } from '../interrupt.ts'
import { printText } from '../print.ts'
import { type Call, verb } from '../verb.ts'
import type { View } from '../view.ts'

/** Pending items at the start of the demo and of each round, so that there is always a busy worker to kill. */
const itemsAtHand = 40
const killCount = 5
const workerCount = 4
const queueName = 'demo'

type Findings = Awaited<ReturnType<typeof check>>
type Say = (text: Drawn) => void

/** Returns the result, and prints what happens along the way. */
export const demo = verb({
  name: 'demo',
  summary: 'Kill and freeze real workers and watch the work heal, in under a minute.',
  act: (call) => whileInterruptible((signal) => demoUntil(signal, call), 'everything it created was removed'),
  text: findingsText,
  exit: ({ ok }) => (ok ? 0 : 1),
})

async function demoUntil(signal: AbortSignal, call: Call): Promise<Findings> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-demo-'))
  try {
    const store = join(folder, 'store.db')
    const hf = await open(store, { agent: 'demo', logger: false })
    const fleet = new Fleet(store, queueName)
    try {
      return await unlessInterrupted(tell(hf, fleet, call), signal)
    } finally {
      await fleet.stop()
      await hf.close()
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function tell(hf: Holdfast, fleet: Fleet, { io, isJson, view }: Call): Promise<Findings> {
  const { colors } = view
  const say: Say = (text) => {
    if (!isJson) printText(io, text)
  }
  const started = systemEnvironment.monotonic()
  say(colors.bold('Holdfast demo: work that heals by itself'))
  say(lines([`One store file, ${workerCount} worker processes.`, '']))
  await topUp(hf)
  for (let number = 0; number < workerCount; number++) await fleet.start()

  const healMs = await killWorkers(hf, fleet, say, colors)
  const frozen = await freezeWorker(hf, fleet, say, colors)
  await untilAllDone(hf)
  return check(hf, healMs, frozen, (systemEnvironment.monotonic() - started) / 1000)
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
  const missing = itemsAtHand - (await queue.stats()).pending
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
    const again = nextEvent(hf, ({ kind, id }) => kind === 'item.claimed' && id === victim.item)
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
  const finished = nextEvent(
    hf,
    ({ kind, id, agent }) => kind === 'item.completed' && id === victim.item && agent !== victim.name,
  )
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
async function nextEvent(
  hf: Holdfast,
  matches: (event: { kind: string; id: string; agent: string | null }) => boolean,
): Promise<{ agent: string; at: number }> {
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
) {
  const completions = new Map<string, number>()
  const pages = await allPages((since: number | undefined = 0) =>
    hf.execute('events.list', { since, limit: 1000 }),
  )
  for (const { kind, id } of pages.flatMap(({ events }) => events))
    if (kind === 'item.completed') completions.set(id, (completions.get(id) ?? 0) + 1)
  const items = (await hf.queue(queueName).stats()).total
  const sorted = healMs.toSorted((left, right) => left - right)
  const quantile = (share: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0)
  const duplicates = [...completions.values()].filter((count) => count > 1).length
  const lost = items - completions.size
  return {
    items,
    done: completions.size,
    duplicates,
    lost,
    kills: healMs.length,
    healP50Ms: quantile(0.5),
    healP95Ms: quantile(0.95),
    frozenReplaced: frozen.replaced,
    lateCompletionRefused: frozen.refused,
    seconds: Math.round(seconds * 10) / 10,
    ok: duplicates === 0 && lost === 0 && frozen.replaced && frozen.refused,
  }
}

function findingsText(findings: Findings, { colors, table }: View): Drawing {
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
  const verdict = findings.ok
    ? colors.green(`Every guarantee held, in ${findings.seconds} s.`)
    : colors.red('A guarantee did not hold.')
  return lines(['', table(head, [row]), '', verdict])
}

function short(id: string): string {
  return `item …${id.slice(-6)}`
}
