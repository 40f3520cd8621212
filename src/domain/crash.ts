/**
 * Which item a crash is blamed on. A dying process takes everything it held with it, and at most one of its items
 * killed it. So a crash alone blames nothing: an item is blamed only if the process held no other item, or no other
 * suspect. The others were exposed. An item that has been exposed twice becomes a suspect. A process is then given only
 * one suspect at a time, so that the next crash is conclusive.
 */
import type { Item } from './item.ts'
import { canonicalJson, type Json } from './json.ts'

/**
 * `own`: the item was alone, or the only suspect. `exposed`: it was lost along with others. `none`: the loss says
 * nothing about it, as after a reboot or an operator's action.
 */
export type Blame = 'own' | 'exposed' | 'none'

/** What a process held when it was first found lost. */
export interface Held {
  readonly items: number
  readonly suspects: number
}

export type CrashMarks = Pick<
  Item,
  'crashes' | 'exposures' | 'suspectedAt' | 'progressAtLoss' | 'quarantinedAt' | 'quarantineReason' | 'runAt'
>

const exposuresUntilSuspect = 2
/**
 * Progress may clear an item's crashes only this often; otherwise one that dies after its first step would go on
 * forever.
 */
const maxCrashResets = 10
/**
 * Progress may lift suspicion only this often. Otherwise an item that dies after ever-new progress would never be a
 * suspect, and healthy suspects next to it would be blamed for its crashes. Being blamed twice does not quarantine them
 * yet.
 */
const maxSuspicionResets = 2
const crashWait = { firstMs: 5_000, factor: 6, maxMs: 5 * 60 * 1000 }

/** `held` is null if it is unknown what the process held; then nothing is blamed. */
export function blameFor(
  item: Pick<Item, 'instance' | 'suspectedAt'>,
  { held, hasEnded = false }: { readonly held: Held | null; readonly hasEnded?: boolean | undefined },
): Blame {
  // A manual lease belongs to no process, so it was lost on its own.
  if (item.instance === null) return 'own'
  // A process that shut down cleanly did not lose its items in a crash.
  if (hasEnded) return 'none'
  if (held === null) return 'exposed'
  if (held.items === 1) return 'own'
  return held.suspects === 1 && item.suspectedAt !== null ? 'own' : 'exposed'
}

export function markLoss(
  item: Item,
  { blame, evidence, maxCrashes }: { blame: Blame; evidence: string; maxCrashes: number },
  wall: number,
): CrashMarks {
  if (blame === 'none') return item
  const lost = { ...item, progressAtLoss: item.progress }
  if (blame === 'exposed') {
    const exposures = item.exposures + 1
    const suspectedAt = item.suspectedAt ?? (exposures >= exposuresUntilSuspect ? wall : null)
    return { ...lost, exposures, suspectedAt }
  }
  const crashes = item.crashes + 1
  if (maxCrashes > 0 && crashes >= maxCrashes) {
    const quarantineReason = `lost ${crashes} holders without progress; the last: ${evidence}`
    return { ...lost, crashes, quarantinedAt: wall, quarantineReason }
  }
  const waitMs = crashWaitMs(crashes)
  return { ...lost, crashes, runAt: waitMs === 0 ? item.runAt : wall + waitMs }
}

/** How long an item waits after a crash it is blamed for: 0, 5, 30 s and so on, up to 5 min. */
export function crashWaitMs(crashes: number): number {
  if (crashes <= 1) return 0
  return Math.min(crashWait.maxMs, crashWait.firstMs * crashWait.factor ** (crashes - 2))
}

export const noSuspicion = { crashes: 0, exposures: 0, suspectedAt: null, progressAtLoss: null } as const

/**
 * What progress clears if it is new since the last loss: at first everything, later only the crashes, finally nothing.
 */
export function clearedBy(
  item: Item,
  progress: Json,
): Partial<Pick<Item, 'crashes' | 'exposures' | 'suspectedAt' | 'progressAtLoss' | 'crashResets'>> {
  const isClear = item.crashes === 0 && item.exposures === 0
  if (isClear || item.crashResets >= maxCrashResets) return {}
  if (canonicalJson(progress) === canonicalJson(item.progressAtLoss)) return {}
  const crashResets = item.crashResets + 1
  if (crashResets <= maxSuspicionResets) return { ...noSuspicion, crashResets }
  return item.crashes === 0 ? {} : { crashes: 0, crashResets }
}
