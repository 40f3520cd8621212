/**
 * A versioned document: one JSON value under a key. Every write adds 1 to its version, so a writer that names the
 * version it read overwrites nothing it has not seen. A deleted document leaves no row: it raises one floor of its
 * namespace, and whatever is made later begins above it. A version seen under a key never comes to mean another
 * value.
 */
import { VersionMismatchError } from '../errors.ts'

export interface State {
  readonly key: string
  readonly version: number
  readonly updatedAt: number
  readonly updatedBy: string
  /** The update that goes first, and until when on the lease clock: it lost to another. */
  readonly preferred: string | null
  readonly preferredUntil: number | null
  /** JSON text. */
  readonly value: string
}

/** A document without its value. */
export type StateSummary = Pick<State, 'key' | 'version' | 'updatedAt' | 'updatedBy'>

/** The highest version a deleted document of the namespace has had. */
export interface StateFloor {
  readonly version: number
}

export interface Saving {
  readonly key: string
  readonly value: string
  readonly agent: string
  readonly wall: number
  /** Id of the update that saves; null for a plain write. */
  readonly update: string | null
}

/** The document with a new value: one version above the present one, or above the floor when it is new. */
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

/** A preference ends with the save of its own update: a save that was under way before leaves it. */
function preferredAfter(
  before: State | null,
  update: string | null,
): Pick<State, 'preferred' | 'preferredUntil'> {
  const isOver = before === null || before.preferred === update
  return {
    preferred: isOver ? null : before.preferred,
    preferredUntil: isOver ? null : before.preferredUntil,
  }
}

/** Many round trips to a busy server. An update whose process dies meanwhile delays the others by no more than this. */
export const preferenceMs = 2000

/**
 * How long an update holds back in all, for one preferred update after another. Then it goes on regardless, at the cost
 * of whoever is preferred: too soon, and on a busy machine that one loses again and again.
 */
export const maxHoldBackMs = 5 * preferenceMs

/** For how long this update should wait because another goes first. */
export function heldBackMs(state: State | null, update: string, now: number): number {
  if (state === null || state.preferred === null || state.preferred === update) return 0
  return Math.max(0, (state.preferredUntil ?? 0) - now)
}

/** This update goes first from now on. */
export function prefer(state: State, update: string, now: number): State {
  return { ...state, preferred: update, preferredUntil: now + preferenceMs }
}

/** This update lets others go on; null when it was not preferred. */
export function giveWay(state: State, update: string): State | null {
  return state.preferred === update ? { ...state, preferred: null, preferredUntil: null } : null
}

/** The floor above a document that is about to go, or null when it is high enough. */
export function raiseFloor(floor: StateFloor | null, removed: State): StateFloor | null {
  return floor !== null && floor.version >= removed.version ? null : { version: removed.version }
}

/** `expected` undefined: whatever is there. 0: nothing must be there. */
export function assertStateVersion(key: string, state: State | null, expected: number | undefined): void {
  const current = state?.version ?? 0
  if (expected === undefined || expected === current) return
  throw new VersionMismatchError({ subject: `state ${key}`, expected, current })
}

const conflictStepMs = 20
const maxConflictStepMs = 320

/**
 * How long an update waits before it reads again. Not at all after the first conflict: whoever was in the way has
 * just finished. Then anywhere in a span that doubles, or a crowd that collided once would collide in step for ever.
 */
export function conflictWaitMs(attempt: number, random: number): number {
  return attempt === 1 ? 0 : random * Math.min(maxConflictStepMs, conflictStepMs * 2 ** (attempt - 2))
}
