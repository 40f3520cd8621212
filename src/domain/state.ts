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
  /** JSON text. */
  readonly value: string
}

/** The highest version a deleted document of the namespace has had. */
export interface StateFloor {
  readonly version: number
}

export interface Saving {
  readonly key: string
  readonly value: string
  readonly agent: string
  readonly wall: number
}

/** The document with a new value: one version above the present one, or above the floor when it is new. */
export function saveState(before: State | null, floor: StateFloor | null, saving: Saving): State {
  return {
    key: saving.key,
    version: (before?.version ?? floor?.version ?? 0) + 1,
    updatedAt: saving.wall,
    updatedBy: saving.agent,
    value: saving.value,
  }
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
const conflictStepMaxMs = 320

/**
 * How long an update waits before it reads again. Not at all after the first conflict: whoever was in the way has
 * just finished. Then anywhere in a span that doubles, or a crowd that collided once would collide in step for ever.
 */
export function conflictWaitMs(attempt: number, random: number): number {
  return attempt === 1 ? 0 : random * Math.min(conflictStepMaxMs, conflictStepMs * 2 ** (attempt - 2))
}
