/** Where the items that a list asks for can stand: it looks nowhere else, however long the other lines are. */
import type { Standing } from './item.ts'
import { knownState, type State, type Workflow } from './workflow.ts'

export interface ItemLines {
  readonly lines: readonly Standing[]
  /** The closed ones it asks for ended badly, all of them. */
  readonly failedOnly: boolean
}

export interface WantedItems {
  readonly states: readonly string[] | null
  readonly standing: Standing | null
  readonly quarantined: boolean | null
  /** Held by some agent. */
  readonly isHeld?: boolean | undefined
}

const everywhere: readonly Standing[] = ['ready', 'suspect', 'waiting', 'held', 'closed']
const claimable: readonly Standing[] = ['ready', 'suspect', 'waiting']

/** Without a workflow nothing is known of its states, so they may be anywhere. */
export function decideLines(
  { states, standing, quarantined, isHeld }: WantedItems,
  workflow: Workflow | null,
): ItemLines {
  const wanted = workflow && states ? states.flatMap((name) => knownState(workflow, name) ?? []) : null
  const closed = wanted?.filter(({ closed }) => closed !== undefined) ?? []
  const lines = everywhere.filter(
    (line) =>
      (standing === null || line === standing) &&
      (wanted === null || wanted.some((state) => linesOf(state).includes(line))) &&
      // What is set aside is neither claimable, held nor closed.
      (quarantined !== true || line === 'waiting') &&
      (isHeld !== true || line === 'held'),
  )
  return { lines, failedOnly: closed.length > 0 && closed.every((state) => state.closed === 'badly') }
}

function linesOf(state: State): readonly Standing[] {
  if (state.closed !== undefined) return ['closed']
  return state.held ? ['held'] : claimable
}
