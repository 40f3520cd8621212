/** Which lines can contain the items a list asks for. It reads no others, however long they are. */
import type { Phase } from './item.ts'
import { knownState, type State, type Workflow } from './workflow.ts'

export interface ItemLines {
  readonly lines: readonly Phase[]
  /** All closed items it asks for have failed. */
  readonly failedOnly: boolean
  /** All waiting items it asks for are quarantined. */
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

/** Items in an unknown state, or in any state if the workflow is unknown, may be in any line. */
export function decideLines(asked: WantedItems, workflow: Workflow | null): ItemLines {
  const { states, phase, quarantined, isHeld } = asked
  const known = states?.map((name) => workflow && knownState(workflow, name)) ?? [null]
  const wanted = known.filter((state) => state != null)
  const isKnown = wanted.length === known.length
  const canStand = (line: Phase) => !isKnown || wanted.some((state) => linesOf(state).includes(line))
  // Recovery quarantines an item it cannot handle in whatever state it was in.
  const quarantinedOnly = !canStand('waiting')
  const lines = everywhere.filter(
    (line) =>
      (phase === null || line === phase) &&
      (canStand(line) || (line === 'waiting' && quarantined !== false)) &&
      // Imports may quarantine an item that someone holds.
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
