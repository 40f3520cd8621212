/** A slot of a lock by one name, as it is told outside: `name#slot`. */

/** A name may hold `#`, the slot never does. A slot that is no number is none. */
export function parseLockRef(ref: string): { name: string; slot: number | null } {
  const split = ref.lastIndexOf('#')
  const slot = Number(ref.slice(split + 1))
  return { name: ref.slice(0, split), slot: Number.isSafeInteger(slot) ? slot : null }
}
