/** Where the items that a list asks for can stand: it looks nowhere else, however long the other lines are. */
import type { Phase } from './item.ts'
import { knownState, type State, type Workflow } from './workflow.ts'

export interface ItemLines {
  readonly lines: readonly Phase[]
  /** The closed ones it asks for ended badly, all of them. */
  readonly failedOnly: boolean
  /** The waiting ones it asks for are set aside, all of them. */
  readonly quarantinedOnly: boolean
}

export interface WantedItems {
  readonly states: readonly string[] | null
  readonly phase: Phase | null
  readonly quarantined: boolean | null
  /** Held by some agent. */
  readonly isHeld?: boolean | undefined
}

const everywhere: readonly Phase[] = ['ready', 'suspect', 'waiting', 'held', 'closed']
const claimable: readonly Phase[] = ['ready', 'suspect', 'waiting']

/** Of a state that nobody knows, as of all states without a workflow, items may be anywhere. */
export function decideLines(
  { states, phase, quarantined, isHeld }: WantedItems,
  workflow: Workflow | null,
): ItemLines {
  const known = states?.map((name) => workflow && knownState(workflow, name)) ?? [null]
  const wanted = known.filter((state) => state != null)
  const isKnown = wanted.length === known.length
  const canStand = (line: Phase) => !isKnown || wanted.some((state) => linesOf(state).includes(line))
  // What recovery could not place was set aside in whatever state it was in.
  const quarantinedOnly = !canStand('waiting')
  const lines = everywhere.filter(
    (line) =>
      (phase === null || line === phase) &&
      (canStand(line) || (line === 'waiting' && quarantined !== false)) &&
      // Imports may keep back what somebody holds.
      (quarantined !== true || line === 'waiting' || line === 'held') &&
      (isHeld !== true || line === 'held'),
  )
  const closed = wanted.filter((state) => state.closed !== undefined)
  const failedOnly = isKnown && closed.length > 0 && closed.every((state) => state.closed === 'failed')
  return { lines, failedOnly, quarantinedOnly }
}

function linesOf(state: State): readonly Phase[] {
  if (state.closed !== undefined) return ['closed']
  return state.held ? ['held'] : claimable
}
