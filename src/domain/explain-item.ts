/** Why an item or a task is in its current state. */
import { formatDuration } from './duration.ts'
import { type Explanation, explainHeld, explanation, nextInLine, type SafeAct } from './explain.ts'
import { explainLocked, explainPaused, type LockHolder } from './explain-fleet.ts'
import type { Holding } from './holding.ts'
import type { Item } from './item.ts'
import type { Queue } from './queue.ts'
import { knownState, type Workflow } from './workflow.ts'

export interface ItemFacts {
  readonly item: Item
  readonly queue: Queue
  readonly workflow: Workflow
  /** Who holds it; null if it is not held. */
  readonly holder: Holding | null
  /** How long its holder's lapsed lease is still spared. */
  readonly sparedMs: number
  /** The items it waits for that still exist. */
  readonly blockers: readonly Item[]
  /** 1-based position in line, if it is ready. */
  readonly position: number | null
  /** Who keeps others from the processing lock, if the queue has one. */
  readonly lockHolders: readonly LockHolder[]
  /** The machine a task belongs on, and whether a process is running there; null if it can be claimed anywhere. */
  readonly host: { readonly name: string; readonly isRunning: boolean } | null
  readonly wall: number
}

export function explainItem(facts: ItemFacts): Explanation {
  switch (facts.item.phase) {
    case 'closed':
      return explainClosed(facts)
    case 'held':
      return explainHeld(facts.holder as Holding, 'it', story(facts.item), facts.sparedMs)
    case 'waiting':
      return explainWaiting(facts)
    case 'ready':
    case 'suspect':
      return explainReady(facts)
  }
}

function explainClosed({ item, workflow }: ItemFacts): Explanation {
  const canRetry = knownState(workflow, item.state)?.retryTo !== undefined
  const failure = item.error ? `: ${item.error.message}` : ''
  return explanation('closed', `it is ${item.state}${failure}`, {
    evidence: story(item),
    can: canRetry ? [act(item, 'queue.retry', 'puts it back in line')] : [],
  })
}

/** If several things hold it back, names the one that lasts longest first. */
function explainWaiting(facts: ItemFacts): Explanation {
  const { item, workflow, wall } = facts
  if (item.quarantinedAt !== null) {
    return explanation('stuck', `it is quarantined: ${item.quarantineReason}`, {
      evidence: story(item),
      can: [act(item, 'queue.releaseFromQuarantine', 'lets it be claimed again, once the cause is fixed')],
    })
  }
  if (item.waitingFor.length > 0) return explainBlocked(facts)
  if (item.runAt !== null) {
    const inMs = item.runAt - wall
    if (inMs <= 0) return explanation('waiting', 'it is due', { evidence: story(item), next: [nextInLine] })
    if (item.offeredTo !== null) {
      const what = `it is offered to ${item.offeredTo} alone for ${formatDuration(inMs)} more`
      return explanation('waiting', what, {
        evidence: story(item),
        next: [{ what: 'anyone may claim it', inMs }],
      })
    }
    const failed = item.failures > 0 ? `, because it failed ${times(item.failures)}` : ''
    return explanation('waiting', `it is not due for another ${formatDuration(inMs)}${failed}`, {
      evidence: story(item),
      next: [{ what: 'it becomes ready', inMs }],
    })
  }
  const state = knownState(workflow, item.state)
  const can: SafeAct[] = []
  if (state?.retryTo !== undefined) can.push(act(item, 'queue.retry', 'puts it back in line'))
  if (state?.claimByNameTo !== undefined)
    can.push({
      operation: 'tasks.completeTask',
      input: { ref: refOf(item) },
      because: 'approves the review',
    })
  return explanation('stuck', `it cannot be claimed in state ${item.state}`, { evidence: story(item), can })
}

function explainBlocked({ item, blockers }: ItemFacts): Explanation {
  const evidence = item.waitingFor.map((id) => {
    const blocker = blockers.find((each) => each.id === id)
    return blocker
      ? `waits for ${blocker.key ?? id}, which is ${blocker.state}`
      : `waits for ${id}, which is gone`
  })
  const isHopeless = item.waitingFor.some((id) => {
    const blocker = blockers.find((each) => each.id === id)
    return blocker === undefined || blocker.outcome === 'failed'
  })
  const count = item.waitingFor.length
  const others = count === 1 ? 'another item' : `${count} other items`
  return isHopeless
    ? explanation('stuck', `it waits for ${others}, not all of which can still succeed`, {
        evidence: [...evidence, ...story(item)],
      })
    : explanation('waiting', `it waits for ${others} to succeed`, {
        evidence: [...evidence, ...story(item)],
        next: [{ what: 'it becomes ready when the last of them succeeds', inMs: null }],
      })
}

function explainReady({ item, queue, position, lockHolders, host }: ItemFacts): Explanation {
  const evidence = [...(position === null ? [] : [`position ${position} in line`]), ...story(item)]
  if (queue.pausedAt !== null) return explainPaused(queue, `queue ${queue.name}`, evidence)
  const locked = explainLocked(queue, lockHolders, 'the processing lock of its queue', evidence)
  if (locked !== null) return locked
  if (host !== null && !host.isRunning) {
    return explanation('stuck', `it belongs on ${host.name}, and no process is running there`, {
      evidence,
      can: [
        {
          operation: 'tasks.claimTaskForAgent',
          input: { ref: refOf(item) },
          because: 'claims it by name, on any machine',
        },
      ],
    })
  }
  const where = host === null ? '' : ` on ${host.name}`
  const how = item.phase === 'suspect' ? ', by a process that holds no other suspect' : ''
  return explanation('ready', `it can be claimed now${where}${how}`, { evidence })
}

/** Its history so far. */
function story(item: Item): string[] {
  return [
    ...(item.attempts === 0 ? [] : [`claimed ${times(item.attempts)}`]),
    ...(item.failures === 0 ? [] : [`failed ${times(item.failures)}, ${item.maxAttempts} are allowed`]),
    ...(item.crashes === 0 ? [] : [`lost its holder ${times(item.crashes)} without progress`]),
    ...(item.exposures === 0 ? [] : [`lost along with other items ${times(item.exposures)}`]),
    ...(item.suspectedAt === null ? [] : ['suspected of killing its holders']),
    ...(item.phase !== 'closed' && item.error ? [`last failure: ${item.error.message}`] : []),
  ]
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`
}

function refOf({ key, id }: Item): string {
  return key ?? id
}

function act(item: Item, operation: string, because: string): SafeAct {
  return { operation, input: { queue: item.queue, ref: refOf(item) }, because }
}
