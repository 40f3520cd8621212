/**
 * Recovery: gives back what lost its holder. One decision, either applied or only reported (dry run). It takes a lapsed
 * lease, or a bound lease whose process is proven dead, and nothing else. It can safely run in many places at once,
 * because every row it takes is checked again here and written under its version.
 */

import { sumByName } from './count.ts'
import { type Blame, blameFor, type Held } from './crash.ts'
import { type Delivery, giveBackDelivery, reclaimDelivery } from './delivery.ts'
import type { Clocks, Item } from './item.ts'
import { quarantineItem, reclaimItem } from './item-loss.ts'
import { hasLapsed, isExpired, type Judging, type LeaseColumns, lastSignOfLife } from './lease.ts'
import type { Lock } from './lock.ts'
import { loseLock } from './lock-line.ts'
import { lapsedInOutage, type Outage } from './outage.ts'
import { knownState, type Workflow } from './workflow.ts'

export interface Death {
  /** How we know. */
  readonly evidence: string
  /** The whole machine was restarted, which says nothing about what the process held. */
  readonly isReboot: boolean
  /** It shut down cleanly. */
  readonly hasEnded?: boolean
}

/** Instances proven dead. */
export type Deaths = ReadonlyMap<string, Death>

export interface ItemRules {
  readonly workflow: Workflow | undefined
  readonly maxCrashes: number
  /** What the holder's process held when it was found lost; null if unknown. */
  readonly held: Held | null
  /** Its holder shut down cleanly. */
  readonly hasEnded?: boolean | undefined
}

export interface Reclaimed<Row> {
  readonly before: Row
  /** Null: the row is deleted (a lock, unless a delay follows its loss). */
  readonly after: Row | null
  readonly evidence: string
  readonly expiredForMs: number
}

export interface ReclaimedItem extends Reclaimed<Item> {
  readonly blame: Blame
}

/** When the store spares a lease that has expired. */
type Sparing = Pick<Judging, 'manualGraceMs' | 'isDoubtful'>

/** Why a lease may be taken now, or null if it may not. */
export function evidenceOfLoss(
  row: LeaseColumns & { readonly delayedSince?: number | null },
  deaths: Deaths,
  now: number,
  { manualGraceMs, isDoubtful }: Sparing = {},
): string | null {
  const death = row.instance === null ? undefined : deaths.get(row.instance)
  if (death !== undefined) return death.evidence
  if (!hasLapsed(row, { now, manualGraceMs, isDoubtful })) return null
  return row.expiresAt === null
    ? 'it is held but has no lease'
    : `its lease lapsed ${now - row.expiresAt} ms ago`
}

export function recoverItem(
  item: Item,
  rules: ItemRules,
  deaths: Deaths,
  at: Clocks & Sparing & { readonly outage?: Outage | null },
): ReclaimedItem | null {
  const evidence = item.phase === 'held' ? evidenceOfLoss(item, deaths, at.now, at) : null
  if (evidence === null) return null
  const death = item.instance === null ? undefined : deaths.get(item.instance)
  const saysNothing = death ? death.isReboot : item.instance !== null && lapsedInOutage(item, at.outage)
  return takeItem(item, rules, evidence, saysNothing ? 'none' : blameFor(item, rules), at)
}

export function recoverLock(
  lock: Lock,
  deaths: Deaths,
  now: number,
  sparing: Sparing = {},
): Reclaimed<Lock> | null {
  const lost = evidenceOfLoss(lock, deaths, now, sparing)
  const evidence = lost !== null && lock.delayedSince !== null ? 'the delay after its loss is over' : lost
  return evidence === null
    ? null
    : { before: lock, after: loseLock(lock, now), evidence, expiredForMs: expiredFor(lock, now) }
}

/** A delivery whose sender was lost: the same attempt is due again. */
export function recoverDelivery(delivery: Delivery, deaths: Deaths, now: number): Reclaimed<Delivery> | null {
  const evidence = delivery.agent === null ? null : evidenceOfLoss(delivery, deaths, now)
  if (evidence === null) return null
  const hasEnded = delivery.instance !== null && deaths.get(delivery.instance)?.hasEnded === true
  const after = hasEnded ? giveBackDelivery(delivery, now) : reclaimDelivery(delivery, now)
  return { before: delivery, after, evidence, expiredForMs: expiredFor(delivery, now) }
}

export interface StaleRequest {
  readonly thresholdMs: number
  /** Also takes items that a live process keeps renewing. */
  readonly force: boolean
}

/**
 * The operator's tool: takes a held item based on its last sign of life, not its lease. An item that a running process
 * keeps renewing is left alone unless forced. Nothing is blamed unless the lease had lapsed too.
 */
export function reclaimStaleItem(
  item: Item,
  rules: ItemRules,
  request: StaleRequest,
  at: Clocks,
): ReclaimedItem | null {
  const lapsed = isExpired(item, at.now)
  const silentForMs = at.now - lastSignOfLife(item)
  if (item.phase !== 'held' || silentForMs < request.thresholdMs) return null
  if (item.instance !== null && !lapsed && !request.force) return null
  const evidence = `no sign of life for ${silentForMs} ms; reclaimed by request`
  return takeItem(item, rules, evidence, lapsed ? blameFor(item, rules) : 'none', at)
}

function takeItem(item: Item, rules: ItemRules, evidence: string, blame: Blame, at: Clocks): ReclaimedItem {
  const loss = { evidence, blame, maxCrashes: rules.maxCrashes }
  const after =
    rules.workflow && knownState(rules.workflow, item.state)?.held
      ? reclaimItem(item, rules.workflow, loss, at)
      : quarantineItem(item, `state "${item.state}" is not a held state of workflow ${item.workflow}`, at)
  return { before: item, after, evidence, blame, expiredForMs: expiredFor(item, at.now) }
}

function expiredFor(row: LeaseColumns, now: number): number {
  return row.expiresAt === null ? 0 : Math.max(0, now - row.expiresAt)
}

export interface RecoveryCounts {
  readonly locksCleaned: number
  readonly entriesReclaimed: number
  readonly quarantined: number
  readonly ids: readonly string[]
  readonly byState: Readonly<Record<string, number>>
}

export function countRecovered(
  items: readonly Reclaimed<Item>[],
  locks: readonly Reclaimed<Lock>[],
): RecoveryCounts {
  return {
    // The end of a delay takes nothing from anyone: its holder was lost, and counted, earlier.
    locksCleaned: locks.filter(({ before }) => before.delayedSince === null).length,
    entriesReclaimed: items.length,
    quarantined: items.filter(({ after }) => after?.quarantinedAt != null).length,
    ids: items.map(({ before }) => before.id),
    byState: sumByName(items.map(({ before }) => [before.state, 1])),
  }
}
