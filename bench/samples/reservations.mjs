/** What the last reservation costs: fifty patterns compared with as many as may be reserved. */
import { open } from 'holdfast'
import { withStore } from '../store.mjs'
import { TransactionWatch } from '../transactions.mjs'

const patternsEach = 5
const asked = 50

/** The longest time others had to wait for one of the transactions, none of which had seen the patterns before. */
export function reserveAtTheLimit({ reserved }) {
  return withStore({ items: 0 }, async (file) => {
    const filler = await open(file, { background: false, durability: 'normal' })
    for (let first = 0; first < reserved - asked; first += patternsEach) {
      await filler.locks.reserve(patterns('theirs', first, patternsEach))
    }
    await filler.close()

    const watch = new TransactionWatch()
    const { environment } = watch
    const hf = await open(file, { background: false, recovery: false, logger: false, environment })
    const { outcome } = await hf.locks.reserve(patterns('ours', 0, asked))
    await hf.close()
    if (outcome !== 'acquired') throw new Error(`the reservation is ${outcome}`)
    return { longestMs: watch.longestMs }
  })
}

function patterns(whose, first, count) {
  return Array.from({ length: count }, (_, number) => `src/engines/${whose}-${first + number}/**/*.ts`)
}
