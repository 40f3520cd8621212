/** The real environment: clocks, randomness, timers and processes of this host. */
import { uptime } from 'node:os'
import { v7 } from 'uuid'
import type { KernelTimes } from '../domain/boot.ts'
import type { Environment } from '../environment.ts'
import { bootedAt, clockShift } from './boot.ts'
import { isMountPoint, networkFileSystem, userFileSystem } from './file-system.ts'
import { marks } from './mark.ts'
import { ProberFile } from './prober-file.ts'
import { identify, identifyPid, judge } from './process.ts'
import { runtimeFolders } from './runtime-folder.ts'

function awakeMs(): number {
  return Number(process.hrtime.bigint()) / 1e6 - clockShift.monotonicMs
}

/** 24.8 days. A Node timer set to more than this fires at once. */
const maxTimerMs = 2 ** 31 - 1

/** Accepts any duration: long ones are chained from several timers. */
function startTimer(ms: number, run: () => void, keepsAlive = false): () => void {
  let timer: NodeJS.Timeout
  const start = (leftMs: number) => {
    timer =
      leftMs > maxTimerMs ? setTimeout(() => start(leftMs - maxTimerMs), maxTimerMs) : setTimeout(run, leftMs)
    if (!keepsAlive) timer.unref()
  }
  start(ms)
  return () => clearTimeout(timer)
}

function kernel(): KernelTimes {
  return { bootedAt: bootedAt(Date.now()), awakeMs: awakeMs() }
}

export const systemEnvironment: Environment = {
  now: () => Date.now(),
  monotonic: awakeMs,
  uptime: () => Math.round(uptime() * 1000),
  timer: startTimer,
  random: () => Math.random(),
  id: () => v7(),
  host: {
    get identity() {
      return identify()
    },
    identify: identifyPid,
    kernel,
    judge: (other, storeIsLocal) => judge(other, { self: identify(), storeIsLocal, kernel }),
    leaveMark: (process) => marks.leaveMark(process),
    ownMark: marks,
    proberSeat: (store) => new ProberFile(runtimeFolders, identify(), store),
    networkFileSystem,
    userFileSystem,
    isMountPoint,
  },
  isLocal: false,
}
