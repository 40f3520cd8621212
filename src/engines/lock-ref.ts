/** One slot of a lock as users see it: `name#slot`. */

/** A name may contain `#`, a slot never does. A slot that is not a number becomes null. */
export function parseLockRef(ref: string): { name: string; slot: number | null } {
  const split = ref.lastIndexOf('#')
  const slot = Number(ref.slice(split + 1))
  return { name: ref.slice(0, split), slot: Number.isSafeInteger(slot) ? slot : null }
}
