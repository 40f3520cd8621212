/**
 * Which waiting processes should check the store after a commit. A process listens to the bell of what it waits for,
 * and a commit rings the bells of what it changed. A store has 64 bells, and two things may share one: a ring is only a
 * hint that costs one look at the store, and only that look tells the truth.
 */

/**
 * `queue`: something there can be claimed, or will be at a time not known before. `lock`: it may be available, or its
 * line is shorter. `state`: a document was saved or deleted. `inbox`: something must be sent through this adapter
 * sooner than expected. `feed`: there are new events; it has no name.
 */
export interface Bell {
  readonly kind: 'queue' | 'lock' | 'state' | 'inbox' | 'feed'
  readonly name: string
}

export const maxBells = 64
/** Nearly every commit rings the feed. Separate bells keep it from waking processes that wait for something else. */
const feedBells = 4
const otherBells = maxBells - feedBells

export const feed: Bell = { kind: 'feed', name: '' }

/** The bell's number, the same in every process. */
export function bellNumber(namespace: string, { kind, name }: Bell): number {
  const hash = mixed(hashed(afterNul(hashed(afterNul(hashed(firstHash, namespace)), kind)), name))
  return kind === 'feed' ? otherBells + (hash % feedBells) : hash % otherBells
}

/** Whether it announces more than new events. */
export function isOfThings(bell: number): boolean {
  return bell < otherBells
}

const firstHash = 0x811c9dc5
const prime = 0x01000193

/** FNV-1a, continued with this text. Part by part: joining the parts for every change would cost more. */
function hashed(start: number, text: string): number {
  let hash = start
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), prime)
  return hash
}

function afterNul(hash: number): number {
  return Math.imul(hash, prime)
}

function mixed(hash: number): number {
  return (hash ^ (hash >>> 15)) >>> 0
}
