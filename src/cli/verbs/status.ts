/** `holdfast status` and `holdfast watch`: the whole fleet on one screen. */
import { boundedText } from '../../domain/count.ts'
import { InvalidError } from '../../errors.ts'
import type { FleetReport } from '../../handle/fleet.ts'
import { type Drawing, line, lines } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
import { untilInterrupted } from '../interrupt.ts'
import { LiveScreen } from '../live-screen.ts'
import { printJson } from '../print.ts'
import { verb } from '../verb.ts'
import { type Cell, leaseLeft, type View, viewFor } from '../view.ts'
import { progressBar } from './progress-text.ts'

export const status = verb({
  operation: 'fleet.status',
  act: async (call) => (await call.open()).fleet.status(),
  // Leave one line of the screen for the prompt.
  text: (fleet, view) => statusText(fleet, view, view.rows === null ? null : view.rows - 1),
})

/** At a shorter interval nobody could read it. */
const everyMin = 100
/** For a longer interval, running `status` now and then is as good. */
const maxEvery = 24 * 60 * 60 * 1000

export const watch = verb({
  name: 'watch',
  summary:
    'Watch the whole fleet: redrawn on a terminal, one JSON line per refresh elsewhere. Quit with q or Ctrl-C.',
  options: [
    { flags: '--every <duration>', kind: 'duration', description: 'how often to refresh; default 1s' },
  ],
  async act(call) {
    const { every = 1000 } = call.options as { every?: number }
    if (every > maxEvery) {
      const given = formatDuration(every)
      throw new InvalidError({ what: `--every: ${given} is more than a day`, next: 'give at most 1d' })
    }
    const everyMs = Math.max(everyMin, every)
    const hf = await call.open()
    const screen = call.io.isTerminal && !call.isJson ? new LiveScreen() : null
    await untilInterrupted(async (stopped) => {
      const signal = screen ? AbortSignal.any([stopped, screen.closed]) : stopped
      try {
        for await (const fleet of hf.fleet.watch({ everyMs, signal })) {
          if (screen)
            screen.draw((size) => statusText(fleet, viewFor({ ...call.io, ...size }, fleet.at), size.rows))
          else printJson(call.io, fleet)
        }
      } finally {
        screen?.close()
      }
    })
  },
})

/** What needs attention comes first; what is quiet takes no space. Cut to `lineCount` lines, unless that is null. */
function statusText(fleet: FleetReport, view: View, lineCount: number | null): Drawing {
  // A low screen drops the advice, which `doctor` also shows, in favour of the facts. A very low one keeps only the
  // tables, one line about the store and one alert.
  const isLow = lineCount !== null && lineCount < advisedLines
  const isTiny = lineCount !== null && lineCount < roomyLines
  const gap = isTiny ? 0 : 1
  const filled = (sections: readonly Drawing[]) => sections.filter(({ text }) => text !== '')
  const above = filled([
    storeText(fleet, view, isTiny),
    alertText(fleet, view, isLow, isTiny ? 1 : maxAlerts),
  ])
  const below = isTiny ? [] : filled([runText(fleet, view), restText(fleet, view)])
  const taken = [...above, ...below].reduce((sum, section) => sum + section.text.split('\n').length + gap, 0)
  const free = lineCount === null ? null : lineCount - taken + gap
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
  const sections = [...above, ...drawn, ...below]
  return lines(sections.flatMap((section, index) => (index === 0 || gap === 0 ? [section] : ['', section])))
}

/** The tables with room for at least one row below the header: a header alone says nothing. */
function fittingTables(all: readonly Section[], free: number | null, gap: number): Section[] {
  const tables = all.filter(({ rows }) => rows.length > 0)
  if (free === null) return tables
  return tables.slice(0, Math.max(1, Math.floor(free / (gap + 2))))
}

interface Section {
  readonly head: readonly string[]
  /** The most important first. */
  readonly rows: readonly (readonly Cell[])[]
  /** May be more than `rows` contains. */
  readonly total: number
  /** `total` is a lower bound, because not all were counted. */
  readonly isAtLeast?: boolean
}

/** Deals out lines one by one in turn until there is no room left. Everyone gets at least one. */
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

function tableText({ head, rows, total, isAtLeast }: Section, room: number, view: View): Drawing {
  const isWhole = rows.length === total && total <= room
  // The line that says how many are left out replaces a row, but never the only one.
  const shown = isWhole ? rows : rows.slice(0, Math.max(1, room - 1))
  const isTold = isWhole || room < 2
  const more = isTold
    ? []
    : [view.colors.dim(`and ${isAtLeast ? 'at least ' : ''}${total - shown.length} more`)]
  return lines([view.table(head, shown), ...more])
}

function storeText({ store, namespace, at }: FleetReport, view: View, isBrief: boolean): Drawing {
  const { colors } = view
  const { engine, engineVersion, durability, server } = store
  const shown = [`${engine} ${engineVersion}`, `durability ${durability}`]
  if (store.isReadOnly) shown.push('read-only')
  if (server) {
    shown.push(
      `fsync ${server.fsync ? 'on' : 'off'}`,
      `synchronous_commit ${server.synchronousCommit}`,
      standbysText(server),
      `timeline ${server.timeline}`,
    )
  }
  // A mistyped namespace looks like a fleet at rest.
  const part = namespace === 'default' ? '' : `  namespace ${namespace}`
  const head = line`${colors.bold(store.location)}${part}  ${view.time(at)}`
  return isBrief ? head : lines([head, colors.dim(shown.join(', '))])
}

function standbysText({
  synchronousStandbys,
  formerStandbys,
}: NonNullable<FleetReport['store']['server']>): string {
  if (formerStandbys !== null) return `standbys none (before: ${formerStandbys})`
  return `standbys ${synchronousStandbys || 'none'}`
}

/** `doctor` shows the rest. */
const maxAlerts = 5
const advisedLines = 40
/** With fewer lines than this, the tables need every line. */
const roomyLines = 18

function alertText(
  { alerts }: FleetReport,
  { colors, columns }: View,
  isBrief: boolean,
  max: number,
): Drawing {
  const shown = alerts.slice(0, max).map(({ level, what, next }, index) => {
    const mark = level === 'warning' ? colors.yellow('!') : colors.dim('i')
    const head = line`${mark} ${what}`
    if (isBrief || next === alerts[index - 1]?.next) return head
    const fits = columns === null || what.length + next.length + 4 <= columns
    return fits ? line`${head}  ${colors.dim(next)}` : lines([head, line`  ${colors.dim(next)}`])
  })
  const more = alerts.length - max
  return lines([...shown, ...(more > 0 ? [colors.dim(`  and ${more} more: holdfast doctor`)] : [])])
}

function queueTable({ queues, moreQueues }: FleetReport, _view: View): Section {
  // A low screen shows only the first rows, so what needs attention comes first. Within a rank, queues stay sorted by
  // name, so that rows do not jump around.
  const rank = ({ quarantined, paused, ready, held, waiting }: FleetReport['queues'][number]) => {
    if (quarantined.count > 0) return 0
    if (paused) return 1
    return ready.count + held.count + waiting.count > 0 ? 2 : 3
  }
  const ordered = queues.toSorted((left, right) => rank(left) - rank(right))
  return {
    head: ['queue', 'ready', 'held', 'waiting', 'succeeded', 'failed', 'oldest', ''],
    total: queues.length + (moreQueues ? 1 : 0),
    isAtLeast: moreQueues,
    rows: ordered.map((queue) => [
      queue.name,
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
      title,
      state ?? '-',
      holder.agent ?? 'an unknown agent',
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
      agent.agent,
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

const maxRuns = 5

function runText({ runs }: FleetReport, { colors }: View): Drawing {
  const shown = runs
    .slice(0, maxRuns)
    .map((run) => line`${colors.bold('run')} ${run.run}  ${progressBar(run)}`)
  const more = runs.length - maxRuns
  return lines([...shown, ...(more > 0 ? [colors.dim(`and ${more} more`)] : [])])
}

function restText({ messages, recovery }: FleetReport, view: View): Drawing {
  const due = recovery.due === 0 ? 'nothing to do' : `${recovery.due} due`
  const looked =
    recovery.lastSweptAt === null ? 'not checked yet' : `last checked ${view.time(recovery.lastSweptAt)}`
  const needed = recovery.lastRunAt === null ? 'never needed' : `last needed ${view.time(recovery.lastRunAt)}`
  return lines([
    `messages  ${messages.pending} waiting for an answer, ${messages.dead} dead`,
    `recovery  ${due}, ${needed}, ${looked}`,
  ])
}
