/** `holdfast explain`. */
import { errorCodes } from '../../error-codes.ts'
import type { FleetExplanation } from '../../operations/fleet/explain.ts'
import { type Drawing, line, lines } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
import { commandFor } from '../safe-act.ts'
import { verb } from '../verb.ts'
import { brief, leaseLeft, type View } from '../view.ts'

type Can = FleetExplanation['can'][number] & { readonly command: string | null }
type Shown = Omit<FleetExplanation, 'can'> & { readonly can: readonly Can[] }

export const find = verb({
  operation: 'fleet.find',
  columns: ['kind', 'id', 'queue', 'title'],
  exit: ({ found }) => (found.length === 0 ? errorCodes.NOT_FOUND.exit : 0),
})

export const explain = verb({
  operation: 'fleet.explain',
  positional: ['id'],
  // Worked out from the word, unless that is ambiguous.
  optional: ['kind'],
  help: 'An id or a key, or the name of a lock, run, agent or queue:\n  holdfast explain T-1\n  holdfast explain deploy --kind lock',
  async act(call) {
    const hf = await call.open()
    const { id, kind } = call.input
    const explained = await hf.fleet.explain(id, kind === undefined ? {} : { kind })
    const can = await Promise.all(
      explained.can.map(async (act) => ({ ...act, command: await commandFor(act) })),
    )
    return { ...explained, can }
  },
  text: explainText,
})

function explainText(shown: Shown, view: View): Drawing {
  const { colors } = view
  const { holder } = shown
  const kind = shown.queue === 'tasks' ? 'task' : shown.kind
  const head = line`${kind} ${colors.bold(shown.title)} is ${paint(shown.verdict, view)}: ${shown.why}`
  const facts = view.pairs([
    ['id', shown.id === shown.title ? null : shown.id],
    ['queue', shown.queue],
    [
      'holder',
      holder &&
        `${holder.agent ?? 'an unknown agent'}, ${holder.kind} lease, ${leaseLeft(holder.remainingMs)}`,
    ],
    ['process', holder && processText(holder)],
    ['token', holder?.token],
    ['since', holder && view.leaseTime(holder.grantedAt)],
    ['until', holder && view.leaseTime(holder.expiresAt)],
    ...shown.evidence.map((each) => ['evidence', each] as const),
    ...shown.next.map(
      ({ what, inMs }) => ['next', `${inMs ? `in ${formatDuration(inMs)}: ` : ''}${what}`] as const,
    ),
    ...shown.can.map(
      ({ command, because }) =>
        ['you can', command === null ? because : line`${command}${colors.dim(`  # ${because}`)}`] as const,
    ),
    ...shown.history.map(
      ({ at, kind: happened, agent, detail }) =>
        [
          'history',
          `${view.time(at)}  ${happened}${agent === null ? '' : ` by ${agent}`}${detail === null ? '' : `  ${detailText(detail)}`}`,
        ] as const,
    ),
  ])
  return lines([head, facts])
}

function processText({ kind, liveness, evidence }: NonNullable<Shown['holder']>): string {
  return kind === 'manual' ? evidence : `${liveness}: ${evidence}`
}

/** The former holder and the reason, if recorded; otherwise the whole detail. */
function detailText(detail: NonNullable<Shown['history'][number]['detail']>): string {
  const { holder, evidence, reason } = detail
  const parts = [evidence, reason].filter((part) => typeof part === 'string')
  if (parts.length === 0) return brief(detail, 120)
  return [typeof holder === 'string' ? `of ${holder}` : '', ...parts].filter(Boolean).join(': ')
}

function paint(verdict: Shown['verdict'], { colors }: View): Drawing {
  if (verdict === 'stuck') return colors.red(verdict)
  return verdict === 'ready' || verdict === 'free' ? colors.green(verdict) : colors.yellow(verdict)
}
