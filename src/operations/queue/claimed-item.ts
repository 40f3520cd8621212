/** One item being claimed: its change, and the grant that its holder gets. */
import type { Clocks, Item } from '../../domain/item.ts'
import { claimItem } from '../../domain/item-claim.ts'
import type { Holder } from '../../domain/lease.ts'
import type { Workflow } from '../../domain/workflow.ts'
import type { Grant } from '../../port/answer.ts'
import type { Context } from '../../port/command.ts'
import { itemChange } from '../subject.ts'

export function claim(
  candidate: Item,
  workflow: Workflow,
  holder: Holder & { leaseMs: number },
  context: Context & Clocks,
) {
  const item = claimItem(candidate, workflow, holder, context)
  return { item, change: itemChange(candidate, item, 'item.claimed', context) }
}

export function grantOf({ id, token }: Item): Grant {
  return { kind: 'item', id, token }
}
