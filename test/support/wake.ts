/** Processes that only a wake-up can reach. */
import type { Environment, MovableEnvironment } from 'holdfast/testing'
import { machine } from './processes.ts'

/** Longer pauses are those of whoever looks from time to time, without having been told of anything. */
const pollMs = 50

const patienceMs = 15_000

/** A process whose pauses between two looks never end: it does something when it is told of it, or never. */
export function neverLooks(env: MovableEnvironment, lookMs = pollMs): Environment {
  const itself = machine(env).process(process.pid)
  // Under its own identity: the other handles of this process would take it for a dead one otherwise.
  return { ...itself, host: env.host, timer: (ms, run) => (ms > lookMs ? () => {} : itself.timer(ms, run)) }
}

/** Lets the time of the store pass until it is there; wake-ups come by way of the real world. */
export async function whileTimePasses<Result>(
  env: MovableEnvironment,
  what: Promise<Result>,
): Promise<Result> {
  let isThere = false
  const arrived = what.finally(() => {
    isThere = true
  })
  const startedAt = performance.now()
  while (!isThere) {
    if (performance.now() - startedAt > patienceMs)
      throw new Error(`nobody was woken within ${patienceMs} ms`)
    await env.advance(pollMs)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return arrived
}

/** The same for what has to be looked at: time stands still while somebody asks a server. */
export async function untilWoken(env: MovableEnvironment, isSo: () => Promise<boolean>): Promise<void> {
  const startedAt = performance.now()
  while (!(await isSo())) {
    if (performance.now() - startedAt > patienceMs)
      throw new Error(`nobody was woken within ${patienceMs} ms`)
    await env.advance(pollMs)
    await new Promise((resolve) => setImmediate(resolve))
  }
}
