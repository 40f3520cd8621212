/** Named locks with Holdfast: acquired and released in separate calls, each with its event. */
import { open } from 'holdfast'
import { measureLocks } from '../lock-callers.mjs'
import { withStore } from '../store.mjs'

export function lockByCallers({ durability, ...load }) {
  return withStore({ items: 0 }, async (file) => {
    const hf = await open(file, { durability })
    const acquire = async (name) => {
      const { outcome } = await hf.locks.acquireLock(name)
      if (outcome !== 'acquired') throw new Error(`lock ${name} is ${outcome}`)
      return async () => {
        if (!(await hf.locks.releaseLock(name))) throw new Error(`lock ${name} was lost`)
      }
    }
    const result = await measureLocks({ ...load, acquire })
    await hf.close()
    return result
  })
}
