/** The real environment: clocks, randomness, timers and processes of this host. */
import { uptime } from 'node:os'
import { v7 } from 'uuid'
import type { Environment } from '../environment.ts'
import { networkFileSystem } from './file-system.ts'
import { leaveMark, ownMark } from './mark.ts'
import { identify, identifyPid, judge } from './process.ts'

export const systemEnvironment: Environment = {
  now: () => Date.now(),
  monotonic: () => Number(process.hrtime.bigint()) / 1e6,
  uptime: () => Math.round(uptime() * 1000),
  timer(ms, run, keepsAlive = false) {
    const timer = setTimeout(run, ms)
    if (!keepsAlive) timer.unref()
    return () => clearTimeout(timer)
  },
  random: () => Math.random(),
  id: () => v7(),
  host: {
    get identity() {
      return identify()
    },
    identify: identifyPid,
    judge: (other, storeIsLocal) => judge(identify(), other, storeIsLocal),
    leaveMark,
    ownMark,
    networkFileSystem,
  },
  isLocal: false,
}
