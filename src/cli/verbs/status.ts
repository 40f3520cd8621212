/** `holdfast status` and `holdfast watch`: the whole fleet on one screen. */
import type { FleetStatus } from '../../operations/fleet.ts'
import { formatDuration, parseDuration } from '../duration.ts'
import { schemaVersion } from '../failure.ts'
import { LiveScreen } from '../live-screen.ts'
import { verb } from '../verb.ts'
import { leaseLeft, printable, type View, viewFor } from '../view.ts'
import { progressBar } from './progress-text.ts'
import { untilInterrupted } from './stream.ts'

interface Shown extends FleetStatus {
  readonly store: { readonly location: string; readonly engine: string; readonly durability: string }
}

export const status = verb<Shown>({
  name: 'status',
  operation: 'fleet.status',
  hides: ['judged'],
  async act(call) {
    const hf = await call.open()
    const { location, engine, durability } = hf.status
    return { store: { location, engine, durability }, ...(await hf.fleet.status()) }
  },
  text: statusText,
})

/** More often, nobody could read it. */
const everyMin = 100

export const watch = verb<undefined>({
  name: 'watch',
  summary:
    'The whole fleet, live: redrawn on a terminal, a JSON line for each look elsewhere. Ends with q or Ctrl-C.',
  options: [{ flags: '--every <duration>', description: 'how often to look; default 1s' }],
  async act(call) {
    const { every = '1s' } = call.options as { every?: string }
    const everyMs = Math.max(everyMin, parseDuration(every))
    const hf = await call.open()
    const { location, engine, durability } = hf.status
    const store = { location, engine, durability }
    const screen = call.io.isTerminal && !call.isJson ? new LiveScreen() : null
    await untilInterrupted(async (stopped) => {
      const signal = screen ? AbortSignal.any([stopped, screen.closed]) : stopped
      try {
        for await (const fleet of hf.fleet.watch({ everyMs, signal })) {
          if (screen) {
            const io = { ...call.io, columns: screen.columns }
            const view = viewFor(io, fleet.at)
            screen.draw(statusText({ store, ...fleet }, view))
          } else call.io.out(`${JSON.stringify({ schemaVersion, store, ...fleet })}\n`)
        }
      } finally {
        screen?.close()
      }
    })
  },
  text: () => '',
})

/** What needs somebody comes first; what is quiet takes no room. */
export function statusText(fleet: Shown, view: View): string {
  const { colors } = view
  const { store, held, messages, recovery } = fleet
  const sections = [
    `${colors.bold(printable(store.location))}  ${colors.dim(`${store.engine}, ${store.durability}`)}  ${view.time(fleet.at)}`,
    fleet.alerts
      .map(({ level, what, next }) => {
        const mark = level === 'warning' ? colors.yellow('!') : colors.dim('i')
        return `${mark} ${printable(what)}  ${colors.dim(printable(next))}`
      })
      .join('\n'),
    fleet.queues.length === 0 ? '' : queueTable(fleet, view),
    held.shown.length === 0 ? '' : heldTable(fleet, view),
    fleet.agents.length === 0 ? '' : agentTable(fleet, view),
    fleet.runs.map((run) => `${colors.bold('run')} ${printable(run.run)}  ${progressBar(run)}`).join('\n'),
    [
      `messages  ${messages.pending} waiting for an answer, ${messages.dead} dead`,
      `healing   ${recovery.due === 0 ? 'nothing due' : `${recovery.due} due`}, last needed ${view.time(recovery.lastRunAt)}, last looked ${view.time(recovery.lastSweptAt)}`,
    ].join('\n'),
  ]
  return sections.filter((section) => section !== '').join('\n\n')
}

function queueTable({ queues }: FleetStatus, view: View): string {
  return view.table(
    ['queue', 'ready', 'held', 'waiting', 'closed', 'oldest', ''],
    queues.map((queue) => [
      printable(queue.name),
      queue.ready,
      queue.held,
      queue.waiting,
      queue.closed,
      queue.oldestReadyMs === null ? '-' : formatDuration(queue.oldestReadyMs),
      [queue.paused && 'paused', queue.quarantined > 0 && `${queue.quarantined} quarantined`]
        .filter((mark) => mark)
        .join(', ') || ' ',
    ]),
  )
}

function heldTable({ held }: FleetStatus, view: View): string {
  const rows = held.shown.map(({ kind, title, state, holder }) => [
    kind,
    printable(title),
    state ?? '-',
    printable(holder.agent ?? 'nobody known'),
    leaseLeft(holder.remainingMs),
    holder.kind === 'manual' ? 'manual' : `${holder.liveness}: ${holder.evidence}`,
  ])
  const more = held.total - held.shown.length
  const table = view.table(['held', 'what', 'state', 'by', 'lease', 'holder'], rows)
  return more === 0 ? table : `${table}\n${view.colors.dim(`and ${more} more`)}`
}

function agentTable({ agents }: FleetStatus, view: View): string {
  return view.table(
    ['agent', 'processes', 'holds', 'last beat', 'crashes'],
    agents.map((agent) => [
      printable(agent.agent),
      agent.processes === 0 ? '-' : processText(agent),
      agent.holds,
      view.time(agent.beatAt),
      agent.suspect ? `${agent.crashes} (suspect)` : agent.crashes,
    ]),
  )
}

function processText({ processes, alive, dead }: FleetStatus['agents'][number]): string {
  const unseen = processes - alive - dead
  return [alive > 0 && `${alive} alive`, dead > 0 && `${dead} dead`, unseen > 0 && `${unseen} out of sight`]
    .filter((part) => part)
    .join(', ')
}
