/** `holdfast status` and `holdfast watch`: the whole fleet on one screen. */
import { boundedText } from '../../domain/count.ts'
import { InvalidError } from '../../errors.ts'
import type { FleetReport } from '../../fleet.ts'
import { formatDuration, parseDuration } from '../duration.ts'
import { schemaVersion } from '../failure.ts'
import { LiveScreen } from '../live-screen.ts'
import { verb } from '../verb.ts'
import { type Cell, leaseLeft, printable, type View, viewFor } from '../view.ts'
import { progressBar } from './progress-text.ts'
import { untilInterrupted } from './stream.ts'

export const status = verb<FleetReport>({
  name: 'status',
  operation: 'fleet.status',
  hides: ['judged'],
  async act(call) {
    const hf = await call.open()
    return hf.fleet.status()
  },
  // The prompt takes a line of the screen too.
  text: (fleet, view) => statusText(fleet, view, view.rows === null ? null : view.rows - 1),
})

/** More often, nobody could read it. */
const everyMin = 100
/** Less often, a look now and then does the same. */
const everyMax = 24 * 60 * 60 * 1000

export const watch = verb<undefined>({
  name: 'watch',
  summary:
    'The whole fleet, live: redrawn on a terminal, a JSON line for each look elsewhere. Ends with q or Ctrl-C.',
  options: [{ flags: '--every <duration>', description: 'how often to look; default 1s' }],
  async act(call) {
    const { every = '1s' } = call.options as { every?: string }
    const everyMs = Math.max(everyMin, parseDuration(every))
    if (everyMs > everyMax) {
      throw new InvalidError({ what: `--every: ${every} is more than a day`, next: 'give at most 1d' })
    }
    const hf = await call.open()
    const screen = call.io.isTerminal && !call.isJson ? new LiveScreen() : null
    await untilInterrupted(async (stopped) => {
      const signal = screen ? AbortSignal.any([stopped, screen.closed]) : stopped
      try {
        for await (const fleet of hf.fleet.watch({ everyMs, signal })) {
          if (screen)
            screen.draw((size) => statusText(fleet, viewFor({ ...call.io, ...size }, fleet.at), size.rows))
          else call.io.out(`${JSON.stringify({ schemaVersion, ...fleet })}\n`)
        }
      } finally {
        screen?.close()
      }
    })
  },
  text: () => '',
})

/** What needs somebody comes first; what is quiet takes no room. Cut to so many lines, where that matters. */
function statusText(fleet: FleetReport, view: View, lines: number | null): string {
  // On a low screen what to do gives way to what is there; `doctor` tells it. On a very low one so does everything else.
  const isLow = lines !== null && lines < advisedLines
  const isTiny = lines !== null && lines < roomyLines
  const gap = isTiny ? 0 : 1
  const filled = (sections: readonly string[]) => sections.filter((section) => section !== '')
  const above = filled([
    storeText(fleet, view, isTiny),
    alertText(fleet, view, isLow, isTiny ? 1 : alertsMax),
  ])
  const below = isTiny ? [] : filled([runText(fleet, view), restText(fleet, view)])
  const taken = [...above, ...below].reduce((sum, section) => sum + section.split('\n').length + gap, 0)
  const free = lines === null ? null : lines - taken + gap
  const tables = fittingTables(
    [queueTable(fleet, view), heldTable(fleet, view), agentTable(fleet, view)],
    free,
    gap,
  )
  const shares = shareLines(
    free === null ? null : free - tables.length * (gap + 1),
    tables.map(({ total }) => total),
  )
  const drawn = tables.map((table, index) => tableText(table, shares[index] as number, view))
  return [...above, ...drawn, ...below].join('\n'.repeat(gap + 1))
}

/** Of which at least a row can be shown below its head; a head alone tells nothing. */
function fittingTables(all: readonly Section[], free: number | null, gap: number): Section[] {
  const tables = all.filter(({ rows }) => rows.length > 0)
  if (free === null) return tables
  return tables.slice(0, Math.max(1, Math.floor(free / (gap + 2))))
}

interface Section {
  readonly head: readonly string[]
  /** What matters most comes first. */
  readonly rows: readonly (readonly Cell[])[]
  /** More may be there than can be shown. */
  readonly total: number
  /** Nobody has counted them all. */
  readonly isAtLeast?: boolean
}

/** A line each in turn, until there is no room; at least one. */
function shareLines(room: number | null, wanted: readonly number[]): number[] {
  if (room === null) return [...wanted]
  const shares = wanted.map(() => 0)
  for (let left = Math.max(room, wanted.length); left > 0; ) {
    const hungry = shares.flatMap((share, index) => (share < (wanted[index] as number) ? [index] : []))
    if (hungry.length === 0) break
    for (const index of hungry.slice(0, left)) shares[index] = (shares[index] as number) + 1
    left -= hungry.length
  }
  return shares
}

function tableText({ head, rows, total, isAtLeast }: Section, lines: number, view: View): string {
  const isWhole = rows.length === total && total <= lines
  // The line that says how many are left out takes the place of a row, but never of the only one.
  const shown = isWhole ? rows : rows.slice(0, Math.max(1, lines - 1))
  const isTold = isWhole || lines < 2
  const more = isTold
    ? []
    : [view.colors.dim(`and ${isAtLeast ? 'at least ' : ''}${total - shown.length} more`)]
  return [view.table(head, shown), ...more].join('\n')
}

function storeText({ store, at }: FleetReport, view: View, isBrief: boolean): string {
  const { colors } = view
  const { engine, engineVersion, durability, server } = store
  const told = [`${engine} ${engineVersion}`, `durability ${durability}`]
  if (store.isReadOnly) told.push('read-only')
  if (server) {
    told.push(
      `fsync ${server.fsync ? 'on' : 'off'}`,
      `synchronous_commit ${printable(server.synchronousCommit)}`,
      standbysText(server),
      `timeline ${server.timeline}`,
    )
  }
  const line = `${colors.bold(printable(store.location))}  ${view.time(at)}`
  return isBrief ? line : `${line}\n${colors.dim(told.join(', '))}`
}

function standbysText({
  synchronousStandbys,
  formerStandbys,
}: NonNullable<FleetReport['store']['server']>): string {
  if (formerStandbys !== null) return `standbys none (before: ${printable(formerStandbys)})`
  return `standbys ${printable(synchronousStandbys) || 'none'}`
}

/** More than these are a case for `doctor`. */
const alertsMax = 5
const advisedLines = 40
/** Below, rows need every line there is. */
const roomyLines = 18

function alertText(
  { alerts }: FleetReport,
  { colors, columns }: View,
  isBrief: boolean,
  max: number,
): string {
  const lines = alerts.slice(0, max).map(({ level, what, next }, index) => {
    const mark = level === 'warning' ? colors.yellow('!') : colors.dim('i')
    const line = `${mark} ${printable(what)}`
    if (isBrief || next === alerts[index - 1]?.next) return line
    const fits = columns === null || what.length + next.length + 4 <= columns
    return `${line}${fits ? '  ' : '\n  '}${colors.dim(printable(next))}`
  })
  const more = alerts.length - max
  return [...lines, ...(more > 0 ? [colors.dim(`  and ${more} more: holdfast doctor`)] : [])].join('\n')
}

function queueTable({ queues, moreQueues }: FleetReport, _view: View): Section {
  const isBusy = ({ ready, held, waiting, paused }: FleetReport['queues'][number]) =>
    paused || ready.count + held.count + waiting.count > 0
  const ordered = [...queues.filter(isBusy), ...queues.filter((queue) => !isBusy(queue))]
  return {
    head: ['queue', 'ready', 'held', 'waiting', 'succeeded', 'failed', 'oldest', ''],
    total: queues.length + (moreQueues ? 1 : 0),
    isAtLeast: moreQueues,
    rows: ordered.map((queue) => [
      printable(queue.name),
      boundedText(queue.ready),
      boundedText(queue.held),
      boundedText(queue.waiting),
      boundedText(queue.succeeded),
      boundedText(queue.failed),
      queue.oldestReadyMs === null ? '-' : formatDuration(queue.oldestReadyMs),
      [
        queue.paused && 'paused',
        queue.quarantined.count > 0 && `${boundedText(queue.quarantined)} quarantined`,
        queue.cancelled.count > 0 && `${boundedText(queue.cancelled)} cancelled`,
      ]
        .filter((mark) => mark)
        .join(', ') || ' ',
    ]),
  }
}

function heldTable({ held }: FleetReport, _view: View): Section {
  return {
    head: ['held', 'what', 'state', 'by', 'lease', 'holder'],
    total: held.total,
    rows: held.shown.map(({ kind, title, state, holder }) => [
      kind,
      printable(title),
      state ?? '-',
      printable(holder.agent ?? 'nobody known'),
      leaseLeft(holder.remainingMs),
      holder.kind === 'manual' ? 'manual' : `${holder.liveness}: ${holder.evidence}`,
    ]),
  }
}

function agentTable({ agents }: FleetReport, view: View): Section {
  const trouble = ({ suspect, dead, crashes }: FleetReport['agents'][number]) =>
    (suspect ? 4 : 0) + (dead > 0 ? 2 : 0) + (crashes > 0 ? 1 : 0)
  const ordered = agents.toSorted((left, right) => trouble(right) - trouble(left) || right.holds - left.holds)
  return {
    head: ['agent', 'processes', 'holds', 'last beat', 'crashes'],
    total: agents.length,
    rows: ordered.map((agent) => [
      printable(agent.agent),
      agent.processes === 0 ? '-' : processText(agent),
      agent.holds,
      view.time(agent.beatAt),
      agent.suspect ? `${agent.crashes} (suspect)` : agent.crashes,
    ]),
  }
}

function processText({ processes, alive, dead }: FleetReport['agents'][number]): string {
  const unseen = processes - alive - dead
  return [alive > 0 && `${alive} alive`, dead > 0 && `${dead} dead`, unseen > 0 && `${unseen} out of sight`]
    .filter((part) => part)
    .join(', ')
}

const runsMax = 5

function runText({ runs }: FleetReport, { colors }: View): string {
  const lines = runs
    .slice(0, runsMax)
    .map((run) => `${colors.bold('run')} ${printable(run.run)}  ${progressBar(run)}`)
  const more = runs.length - runsMax
  return [...lines, ...(more > 0 ? [colors.dim(`and ${more} more`)] : [])].join('\n')
}

function restText({ messages, recovery }: FleetReport, view: View): string {
  const due = recovery.due === 0 ? 'nothing due' : `${recovery.due} due`
  const looked =
    recovery.lastSweptAt === null
      ? 'nobody looks by itself'
      : `last looked ${view.time(recovery.lastSweptAt)}`
  const needed = recovery.lastRunAt === null ? 'never needed' : `last needed ${view.time(recovery.lastRunAt)}`
  return [
    `messages  ${messages.pending} waiting for an answer, ${messages.dead} dead`,
    `healing   ${due}, ${needed}, ${looked}`,
  ].join('\n')
}
