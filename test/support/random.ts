/** Random tests: the seed is printed, and setting it repeats them. */
import type { Parameters } from 'fast-check'
import { isQuick } from './quick.ts'

const seed = Number(process.env.HOLDFAST_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
console.log(`random tests: repeat with HOLDFAST_TEST_SEED=${seed}`)

/**
 * Few runs, because each has a store of its own; another seed each time, so that many days make many runs. Half of them
 * in a quick run, which other engines run beside.
 */
export function runs<Values>(most: number): Parameters<Values> {
  return { numRuns: isQuick ? Math.ceil(most / 2) : most, seed, endOnFailure: true }
}
