/**
 * How a case is made: two samples that take turns, or one figure, and the goal that the figure, or the ratio, is held
 * against.
 */
import { p99 } from './statistics.mjs'

export const atLeast = (bound) => ({ text: `≥ ${bound}`, isMet: (figure) => figure >= bound })
export const atMost = (bound) => ({ text: `≤ ${bound}`, isMet: (figure) => figure <= bound })
export const ratio = (goal) => ({ ...goal, text: `${goal.text}×`, of: 'ratio' })
export const figure = (goal, unit) => ({ ...goal, text: `${goal.text} ${unit}`.trim(), of: 'ours' })

/** A figure without a goal: it shows the price of the row beside it. */
export const noGoal = { text: '', isMet: () => null, of: 'ours' }

export const jobsPerSecond = { unit: 'jobs/s', read: ({ rate }) => rate }
export const locksPerSecond = { unit: 'locks/s', read: ({ rate }) => rate }
export const microsecondsPerJob = { unit: 'µs/job', read: ({ rate }) => 1e6 / rate }

/** Two samples that take turns. `sides(size)` says what each is; if the peer is missing, the row is skipped. */
export function comparison({ id, what, goal, peer, unit, read, sides }) {
  return {
    id,
    async run({ rounds, size, measure, peers }) {
      const { ours, theirs } = sides(size)
      const { missing, parameters } = peer ? await peers.find(peer) : { parameters: {} }
      const row = { id, what, unit, goal, ours: [], theirs: [] }
      // Without a peer a smoke run still shows that our side can be measured.
      if (missing && !size.isSmoke) return [{ ...row, skipped: missing }]
      for (let round = 0; round < rounds; round++) {
        row.ours.push(read(await measure(...ours)))
        if (!missing) row.theirs.push(read(await measure(theirs[0], { ...theirs[1], ...parameters })))
      }
      return [missing ? { ...row, skipped: missing } : row]
    },
  }
}

/** As many items as the fastest side can finish in the time there is. */
export function supply({ warmMs, warmJobs, measureMs, isSmoke }, ratePerSecond) {
  const items = isSmoke ? 300 : warmJobs + Math.ceil(((warmMs + measureMs) * ratePerSecond) / 1000)
  return { items, warmMs, warmJobs, measureMs }
}

/** The 99th percentile of the measured times. */
export function latency(id, what, goalMs, measureTimes, times) {
  return {
    id,
    async run({ size }) {
      const { isSmoke } = size
      const ours = await measureTimes({ rounds: isSmoke ? 2 : times, isSmoke })
      return [{ id, what, unit: 'ms', goal: figure(atMost(goalMs), 'ms'), pick: p99, ours }]
    },
  }
}
