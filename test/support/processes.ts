/** Processes that live and die as a test decides, all on the clock of one store. */
import type { Environment, MovableEnvironment, ProcessIdentity } from 'holdfast/testing'

export interface Machine {
  /** The environment of one more process on this machine. */
  process(pid: number): Environment
  /** From now on every process on this machine sees that it is gone. */
  kill(pid: number): void
  /** It was not dead after all. */
  revive(pid: number): void
  /** Nothing in it runs until it is thawed; then everything that came due does. */
  freeze(pid: number): void
  thaw(pid: number): void
}

/** A machine whose boot, pid namespace and host name are those of the store's own host unless told otherwise. */
export function machine(env: MovableEnvironment, place: Partial<ProcessIdentity> = {}): Machine {
  const dead = new Set<number>()
  const frozen = new Map<number, (() => void)[]>()
  return {
    process: (pid) => ({
      isLocal: true,
      now: () => env.now(),
      monotonic: () => env.monotonic(),
      uptime: () => env.uptime(),
      timer(ms, run) {
        let isCancelled = false
        const runUnlessFrozen = () => {
          const due = frozen.get(pid)
          if (due) due.push(() => isCancelled || run())
          else run()
        }
        const cancel = env.timer(ms, runUnlessFrozen)
        return () => {
          isCancelled = true
          cancel()
        }
      },
      random: () => env.random(),
      id: () => env.id(),
      outside: (work) => env.outside(work),
      ...(env.answered ? { answered: env.answered } : {}),
      host: {
        ...env.host,
        identity: { ...env.host.identity, ...place, pid, startTime: `start of ${pid}` },
        leaveMark: () => {},
        ownMark: { enter: () => null, refresh() {}, leave() {} },
        identify: (other) =>
          dead.has(other)
            ? null
            : { ...env.host.identity, ...place, pid: other, startTime: `start of ${other}` },
        judge: (other) =>
          dead.has(other.pid)
            ? { liveness: 'dead', evidence: `process ${other.pid} is gone` }
            : { liveness: 'alive', evidence: `process ${other.pid} is running` },
      },
    }),
    kill: (pid) => dead.add(pid),
    revive: (pid) => dead.delete(pid),
    freeze: (pid) => frozen.set(pid, []),
    thaw(pid) {
      const due = frozen.get(pid) ?? []
      frozen.delete(pid)
      for (const run of due) run()
    },
  }
}
