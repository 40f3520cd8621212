/** Healing: who is proven dead, then the bounded recovery command until nothing is left. Every trigger ends here. */
import type { Instance } from '../domain/instance.ts'
import type { Environment, Verdict } from '../environment.ts'
import type { LogFacts, LogName } from '../logger.ts'
import { type RecoveryReport, type RecoveryTrigger, recoveryMax } from '../operations/recovery.ts'

export interface Healing {
  readonly environment: Environment
  readonly storeIsLocal: boolean
  readonly trigger: RecoveryTrigger
  readonly queue?: string | undefined
  readonly dryRun?: boolean | undefined
  /** Only what lapsed longer ago; the dead are not waited for. */
  readonly maxAgeMs?: number | undefined
  /** Whether the rest is left to others. */
  readonly isOver?: () => boolean
  execute(operation: string, input: Record<string, unknown>): Promise<unknown>
  log(level: 'info' | 'warn', name: LogName, facts: LogFacts): void
}

export const instancesMax = 500

export interface Death {
  readonly instance: string
  readonly evidence: string
  readonly isReboot: boolean
}

/** What this process can say of every running one. Reads only. */
export async function judgeRunning({
  environment,
  storeIsLocal,
  execute,
}: Pick<Healing, 'environment' | 'storeIsLocal' | 'execute'>): Promise<(Verdict & { instance: string })[]> {
  const running = (await execute('instance.list', { limit: instancesMax })) as Instance[]
  return running.map((instance) => ({
    instance: instance.id,
    ...environment.host.judge(instance, storeIsLocal),
  }))
}

/** Any doubt about a process leaves its leases to lapse by themselves. */
export function deathsAmong(judged: readonly (Verdict & { instance: string })[]): Death[] {
  return judged
    .filter(({ liveness }) => liveness === 'dead')
    .map(({ instance, evidence, isReboot = false }) => ({ instance, evidence, isReboot }))
}

export async function findDeaths(healing: Parameters<typeof judgeRunning>[0]): Promise<Death[]> {
  return deathsAmong(await judgeRunning(healing))
}

/** Gives back everything lapsed, and what the dead held. One transaction takes a bounded piece; others get their turn. */
export async function heal(healing: Healing, deaths: readonly Death[]): Promise<RecoveryReport> {
  const { environment, trigger, queue, dryRun, maxAgeMs } = healing
  let total: RecoveryReport | null = null
  for (let more = true; more; ) {
    const started = environment.monotonic()
    const report = (await healing.execute('recovery.run', {
      trigger,
      deaths: deaths.slice(0, recoveryMax),
      ...(queue === undefined ? {} : { queue }),
      ...(dryRun === undefined ? {} : { dryRun }),
      ...(maxAgeMs === undefined ? {} : { maxAgeMs }),
    })) as RecoveryReport
    if (!dryRun) logRecovery(healing.log, report, trigger, environment.monotonic() - started)
    total = total ? addReports(total, report) : report
    more = report.more && !dryRun && !healing.isOver?.()
  }
  return total as RecoveryReport
}

/** One line for what was done, one for each thing taken from a lost holder. */
export function logRecovery(
  log: Healing['log'],
  report: RecoveryReport,
  trigger: RecoveryTrigger,
  ms: number,
): void {
  const { locksCleaned, entriesReclaimed, quarantined, messagesReclaimed } = report
  if (locksCleaned + entriesReclaimed + messagesReclaimed === 0) return
  for (const { kind, id, holder, expiredForMs, evidence } of report.reclaimed) {
    log('warn', 'lease.reclaimed', { kind, id, holder, expiredForMs, evidence })
  }
  log('info', 'recovery.completed', {
    trigger,
    locksCleaned,
    entriesReclaimed,
    quarantined,
    messagesReclaimed,
    ms: Math.round(ms),
  })
}

function addReports(left: RecoveryReport, right: RecoveryReport): RecoveryReport {
  const byState = { ...left.byState }
  for (const [state, count] of Object.entries(right.byState)) byState[state] = (byState[state] ?? 0) + count
  return {
    locksCleaned: left.locksCleaned + right.locksCleaned,
    entriesReclaimed: left.entriesReclaimed + right.entriesReclaimed,
    quarantined: left.quarantined + right.quarantined,
    messagesReclaimed: left.messagesReclaimed + right.messagesReclaimed,
    promoted: left.promoted + right.promoted,
    instancesEnded: left.instancesEnded + right.instancesEnded,
    waitersRemoved: left.waitersRemoved + right.waitersRemoved,
    progressPaused: left.progressPaused + right.progressPaused,
    recoveryTimestamp: right.recoveryTimestamp,
    ids: [...left.ids, ...right.ids],
    byState,
    reclaimed: [...left.reclaimed, ...right.reclaimed],
    more: right.more,
  }
}
