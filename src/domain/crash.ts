/**
 * Whom a crash blames. A process that dies takes everything it held with it, and at most one of its items killed it.
 * So a crash by itself blames nobody: an item is blamed when it was the only one there, or the only suspect. The
 * others were exposed. What has been exposed twice becomes a suspect and is then handed out one at a time per
 * process, so that the next crash tells.
 */
import type { Item, Json } from './item.ts'
import { canonicalJson } from './json.ts'

/**
 * `own`: the item was alone, or the only suspect. `exposed`: it was lost along with others. `none`: nothing was
 * learned about it, as after a reboot or an operator's act.
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
/** Progress may clear an item's crashes this often: one that dies after its first step would go on for ever. */
const maxCrashResets = 10
/**
 * And lift a suspicion only this often. An item that dies after ever new progress would never be a suspect otherwise,
 * and those that are, healthy ones beside it, would be blamed for its crashes; twice does not quarantine them yet.
 */
const maxSuspicionResets = 2
const crashWait = { firstMs: 5_000, factor: 6, maxMs: 5 * 60 * 1000 }

/** `held` is null where nobody can tell what the process held; nobody is blamed then. */
export function blameFor(
  item: Pick<Item, 'instance' | 'suspectedAt'>,
  { held, hasEnded = false }: { readonly held: Held | null; readonly hasEnded?: boolean | undefined },
): Blame {
  // A manual lease belongs to no process: it was lost by itself.
  if (item.instance === null) return 'own'
  // What a process leaves behind that ended in good order was not lost in a crash.
  if (hasEnded) return 'none'
  if (held === null) return 'exposed'
  if (held.items === 1) return 'own'
  return held.suspects === 1 && item.suspectedAt !== null ? 'own' : 'exposed'
}

/** What a loss leaves on its item. */
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

/** How long an item waits after its own crash: 0, 5, 30 s and so on, up to 5 min. */
export function crashWaitMs(crashes: number): number {
  if (crashes <= 1) return 0
  return Math.min(crashWait.maxMs, crashWait.firstMs * crashWait.factor ** (crashes - 2))
}

/** Everything that speaks against an item, cleared. */
export const noSuspicion = { crashes: 0, exposures: 0, suspectedAt: null, progressAtLoss: null } as const

/** What progress clears if it is new since the last loss: everything at first, later its crashes, in the end nothing. */
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
