/**
 * A versioned document: one JSON value under a key. Every write adds 1 to its version, so a writer that names the
 * version it read overwrites nothing it has not seen. A deleted document leaves no row. Instead it raises a floor
 * shared by its namespace, and every document created later starts above it. So a version seen under a key never refers
 * to a different value later.
 */
import { VersionMismatchError } from '../errors.ts'

export interface State {
  readonly key: string
  readonly version: number
  readonly updatedAt: number
  readonly updatedBy: string
  /** The update that goes first because it lost to another, and until when on the lease clock. */
  readonly preferred: string | null
  readonly preferredUntil: number | null
  /** JSON text. */
  readonly value: string
}

/** A document without its value. */
export type StateSummary = Pick<State, 'key' | 'version' | 'updatedAt' | 'updatedBy'>

/** The highest version any deleted document of the namespace has had. */
export interface StateFloor {
  readonly version: number
}

export interface Saving {
  readonly key: string
  readonly value: string
  readonly agent: string
  readonly wall: number
  /** Id of the update that is saving; null for a plain write. */
  readonly update: string | null
}

/** The document with a new value: one version above the current one, or above the floor if it is new. */
export function saveState(before: State | null, floor: StateFloor | null, saving: Saving): State {
  return {
    key: saving.key,
    version: (before?.version ?? floor?.version ?? 0) + 1,
    updatedAt: saving.wall,
    updatedBy: saving.agent,
    ...preferredAfter(before, saving.update),
    value: saving.value,
  }
}

/** A preference ends when its own update saves. A save that was already in flight does not end it. */
function preferredAfter(before: State | null, update: string | null) {
  const isOver = before === null || before.preferred === update
  return {
    preferred: isOver ? null : before.preferred,
    preferredUntil: isOver ? null : before.preferredUntil,
  }
}

/**
 * Enough for many round trips to a busy server. If the preferred update's process dies, it delays the others by at most
 * this long.
 */
export const preferenceMs = 2000

/**
 * How long an update waits in total for preferred updates, one after another. Then it proceeds anyway, at the expense
 * of the preferred one; if this were too short, the preferred one would lose again and again on a busy machine.
 */
export const maxHoldBackMs = 5 * preferenceMs

/** How long this update should wait because another goes first. */
export function heldBackMs(state: State | null, update: string, now: number): number {
  if (state === null || state.preferred === null || state.preferred === update) return 0
  return Math.max(0, (state.preferredUntil ?? 0) - now)
}

/** Lets this update go first from now on. */
export function prefer(state: State, update: string, now: number): State {
  return { ...state, preferred: update, preferredUntil: now + preferenceMs }
}

/** Gives up this update's preference; null if it had none. */
export function giveWay(state: State, update: string): State | null {
  return state.preferred === update ? { ...state, preferred: null, preferredUntil: null } : null
}

/** The floor for a document about to be deleted, or null if it is already high enough. */
export function raiseFloor(floor: StateFloor | null, removed: State): StateFloor | null {
  return floor !== null && floor.version >= removed.version ? null : { version: removed.version }
}

/** `expected` undefined: any version will do. 0: the document must not exist. */
export function assertStateVersion(key: string, state: State | null, expected: number | undefined): void {
  const current = state?.version ?? 0
  if (expected === undefined || expected === current) return
  throw new VersionMismatchError({ subject: `state ${key}`, expected, current })
}

const conflictStepMs = 20
const maxConflictStepMs = 320

/**
 * How long an update waits before it reads again. No wait after the first conflict, because the other writer has just
 * finished. After that, a random time from a span that doubles; otherwise a crowd that collided once would collide in
 * lockstep forever.
 */
export function conflictWaitMs(attempt: number, random: number): number {
  return attempt === 1 ? 0 : random * Math.min(maxConflictStepMs, conflictStepMs * 2 ** (attempt - 2))
}
