/** What taking a lease from a lost holder writes: the row, its event, the record of the run; and how it is told. */
import type { Delivery } from '../domain/delivery.ts'
import { type Process, recordedLoss, recordLoss } from '../domain/instance.ts'
import type { Item } from '../domain/item.ts'
import { holderOf, type Lock } from '../domain/lock.ts'
import type { ItemRules, Reclaimed, ReclaimedItem } from '../domain/recovery.ts'
import { builtInWorkflow } from '../domain/workflow.ts'
import type { Change, Context, DefinedQueue } from '../engines/engine.ts'
import { delayedLock } from './lock.ts'
import type { RecoveryReport } from './recovery.ts'

/** What it takes to say who is to blame for the loss of these: the processes that held them. */
export function processNeeds(items: readonly Item[]) {
  const instances = new Set(items.flatMap(({ instance }) => instance ?? []))
  const processes = { select: 'processes', instances: [...instances] } as const
  return { processes: instances.size === 0 ? null : processes }
}

export function rulesFor(
  item: Item,
  queues: readonly DefinedQueue[],
  processes: readonly Process[] | null = null,
): ItemRules {
  const defined = queues.find(({ queue }) => queue.name === item.queue)
  const process = processOf(item, processes)
  return {
    workflow: defined?.definition ?? builtInWorkflow(item.workflow),
    crashesMax: defined?.queue.crashesMax ?? 0,
    held: process ? (recordedLoss(process, item) ?? process) : null,
  }
}

function processOf({ instance }: Item, processes: readonly Process[] | null): Process | undefined {
  return processes?.find(({ instances }) => instances.some(({ id }) => id === instance))
}

/** Records what each process held when it was first found lost, where something of it is left to be taken later. */
export function lossRecords(
  taken: readonly ReclaimedItem[],
  processes: readonly Process[] | null,
  context: Context,
): Change[] {
  return (processes ?? []).flatMap((process) => {
    const lost = taken.filter(({ before }) => processOf(before, processes) === process)
    const isRecorded = lost.every(({ before }) => recordedLoss(process, before) !== null)
    if (isRecorded || lost.length === process.items) return []
    const { items, suspects } = process
    const detail = { evidence: lost[0]?.evidence, items, suspects }
    return process.instances
      .filter(({ endedAt }) => endedAt === null)
      .map((before): Change => {
        const after = recordLoss(before, process, context.now)
        return {
          table: 'instance',
          before,
          after,
          event: { kind: 'instance.lost', agent: context.agent, detail },
        }
      })
  })
}

export function itemReclaim(
  { before, after, evidence, expiredForMs, blame }: ReclaimedItem,
  context: Context,
  trigger: string,
): Change {
  const kind = after?.quarantinedAt != null ? 'item.quarantined' : 'item.reclaimed'
  const detail = {
    holder: before.agent,
    from: before.state,
    token: before.token,
    evidence,
    expiredForMs,
    blame,
    trigger,
  }
  return { table: 'item', before, after, event: { kind, agent: context.agent, detail } }
}

export function lockReclaim(
  { before, after, evidence, expiredForMs }: Reclaimed<Lock>,
  context: Context,
  trigger: string,
): Change {
  if (after) return delayedLock(before, after, evidence, context, { expiredForMs, trigger })
  const detail = { holder: holderOf(before), token: before.token, evidence, expiredForMs, trigger }
  return { table: 'lock', before, after: null, event: { kind: 'lock.expired', agent: context.agent, detail } }
}

export function describeReclaimed(
  items: readonly Reclaimed<Item>[],
  locks: readonly Reclaimed<Lock>[],
  deliveries: readonly Reclaimed<Delivery>[],
): RecoveryReport['reclaimed'] {
  return [
    ...items.map(({ before, evidence, expiredForMs }) => ({
      kind: 'item' as const,
      id: before.id,
      holder: before.agent,
      expiredForMs,
      evidence,
    })),
    ...locks.map(({ before, evidence, expiredForMs }) => ({
      kind: 'lock' as const,
      id: before.name,
      holder: holderOf(before),
      expiredForMs,
      evidence,
    })),
    ...deliveries.map(({ before, evidence, expiredForMs }) => ({
      kind: 'delivery' as const,
      id: before.id,
      holder: before.agent,
      expiredForMs,
      evidence,
    })),
  ]
}

export function runRow(
  context: Context,
  trigger: string,
  counts: Pick<RecoveryReport, 'locksCleaned' | 'entriesReclaimed' | 'quarantined'> & {
    messagesReclaimed?: number
  },
): Change {
  const { locksCleaned, entriesReclaimed, quarantined, messagesReclaimed = 0 } = counts
  const row = {
    id: context.ids[0] as string,
    at: context.wall,
    trigger,
    by: context.agent,
    locksCleaned,
    entriesReclaimed,
    quarantined,
    messagesReclaimed,
  }
  return { table: 'recoveryRun', before: null, after: row }
}
