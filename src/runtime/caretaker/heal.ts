/** Heals one namespace: judges who is dead, and reclaims what they held and what has lapsed, in bounded pieces. */
import { sumByName } from '../../domain/count.ts'
import type { Healer } from '../../domain/healer.ts'
import type { Instance } from '../../domain/instance.ts'
import type { Environment, Verdict } from '../../environment.ts'
import type { Log } from '../../logger.ts'
import type { OutputOf } from '../../operations/operation.ts'
import {
  type death,
  maxDeaths,
  maxReclaimed,
  type RecoveryReport,
  type RecoveryTrigger,
} from '../../operations/recovery/report.ts'
import type { AskedOf, Execute } from '../../operations/table.ts'
import { inPieces, sumOf } from '../session/input.ts'
import { allPages, chunksOf } from '../session/pages.ts'

export interface Healing
  extends Pick<AskedOf<'recovery.run'>, 'queue' | 'dryRun' | 'maxAgeMs' | 'pauseReason'> {
  readonly environment: Environment
  readonly storeIsLocal: boolean
  readonly trigger: RecoveryTrigger
  /** Set if the namespace is not this process's own: recorded with everything it does there. */
  readonly healer?: Healer | undefined
  /** Only locks with their lines and runs, and what the dead held. */
  readonly locksOnly?: true | undefined
  /** Whether to stop and leave the rest to others. */
  readonly isOver?: () => boolean
  readonly execute: Execute
  readonly log: Log
}

/** Processes judged in one go: more would keep the event loop busy, so the rest come with the next page. */
const maxPage = 500

export type Death = OutputOf<typeof death>

export type Judgement = Verdict & { readonly instance: string }

type Judging = Pick<Healing, 'environment' | 'storeIsLocal' | 'execute'>

/** Judges one page of the processes that this one can judge; the others would only be unknown. Read-only. */
export async function judgePage(
  { environment, storeIsLocal, execute }: Judging,
  after: string | null,
): Promise<{ readonly judged: Judgement[]; readonly next: string | null }> {
  const { bootId, hostName, pidNamespace } = environment.host.identity
  const { instances, next } = await execute('instance.list', {
    machine: { bootId, hostName, pidNamespace },
    // A store on a local disk was opened only from this machine: other boot ids are containers or earlier boots.
    otherBoots: storeIsLocal,
    limit: maxPage,
    ...(after === null ? {} : { after }),
  })
  const judged = instances.map((instance) => ({
    instance: instance.id,
    ...environment.host.judge(instance, storeIsLocal),
  }))
  return { judged, next }
}

/** Instances that left in good order but still hold something, which is lost as if they had died. Read-only. */
export async function endedHolders({ execute }: Pick<Judging, 'execute'>): Promise<Judgement[]> {
  const pages = await allPages(
    (after?: string) => execute('instance.listEndedHolders', { after }),
    (read) => sumOf(read, ({ instances }) => instances.length) >= maxDeaths,
  )
  return pages.flatMap(({ instances }) =>
    instances.map(({ id, endReason }) => ({
      instance: id,
      liveness: 'dead' as const,
      evidence: `its process has ended (${endReason})`,
    })),
  )
}

/** All that can be judged, up to as many as one command can name, plus ended instances that still hold something. */
export async function judgeRunning(judging: Judging): Promise<Judgement[]> {
  const ended = await endedHolders(judging)
  const running = await allPages(
    (after: string | null = null) => judgePage(judging, after),
    (read) => sumOf(read, ({ judged }) => judged.length) >= maxDeaths,
  )
  return [...ended, ...running.flatMap(({ judged }) => judged)].slice(0, maxDeaths)
}

/** If there is any doubt about a process, its leases are left to lapse. */
export function deathsAmong(judged: readonly Judgement[]): Death[] {
  return judged
    .filter(({ liveness }) => liveness === 'dead')
    .map(({ instance, evidence, isReboot = false }) => ({ instance, evidence, isReboot }))
}

export async function findDeaths(judging: Judging): Promise<Death[]> {
  return deathsAmong(await judgeRunning(judging))
}

/**
 * Reclaims everything lapsed, and what the dead held. One transaction takes a bounded piece, so that others get in
 * between. Many dead are also taken a piece at a time; a dry run changes nothing, so it sees all of them at once.
 */
export async function heal(healing: Healing, deaths: readonly Death[]): Promise<RecoveryReport> {
  const { dryRun } = healing
  const maxPerPiece = dryRun ? maxDeaths : maxReclaimed
  const reports: RecoveryReport[] = []
  // Also without any dead: leases have lapsed.
  for (const some of deaths.length === 0 ? [[]] : chunksOf(deaths, maxPerPiece)) {
    if (reports.length > 0 && healing.isOver?.()) break
    reports.push(...(await healUntilOver(healing, some)))
  }
  return ended(healing, addReports(reports))
}

/** How long opening a store spends on the rest if there is much to heal, after locks and what the dead held. */
const openMs = 200

/**
 * Heals what must be healed before a store is used, so that it opens quickly: 1. One piece of everything, which usually
 * is all there is. 2. All locks, their lines and runs, and everything the dead held. 3. Items, for 200 ms. `more` says
 * whether some are left: then somebody has to continue.
 */
export async function healAtOpen(healing: Healing, deaths: readonly Death[]): Promise<RecoveryReport> {
  const { environment } = healing
  const reports = [await healPiece(healing, deaths.slice(0, maxReclaimed))]
  if (reports[0]?.more || deaths.length > maxReclaimed) {
    for (const some of deaths.length === 0 ? [[]] : chunksOf(deaths, maxReclaimed))
      reports.push(...(await healUntilOver({ ...healing, locksOnly: true }, some)))
    const until = environment.monotonic() + openMs
    const isOver = () => environment.monotonic() >= until
    reports.push(...(await healUntilOver({ ...healing, isOver }, [])))
  }
  return ended(healing, addReports(reports))
}

async function ended(healing: Healing, total: RecoveryReport): Promise<RecoveryReport> {
  const { dryRun, trigger, queue } = healing
  // Operators look for this line when a server starts, so log it even if there was nothing to do.
  if (trigger === 'open' && !dryRun && isNothing(total)) logSummary(healing.log, total, 'open', 0)
  if (dryRun || queue !== undefined || trigger === 'death') return total
  return { ...total, instancesEnded: total.instancesEnded + (await endSilent(healing)) }
}

function healUntilOver(healing: Healing, deaths: readonly Death[]): Promise<RecoveryReport[]> {
  const isOver = () => healing.dryRun === true || healing.isOver?.() === true
  return inPieces(() => healPiece(healing, deaths), isOver)
}

async function healPiece(healing: Healing, deaths: readonly Death[]): Promise<RecoveryReport> {
  const { environment, trigger, queue, dryRun, maxAgeMs, pauseReason, healer, locksOnly } = healing
  const started = environment.monotonic()
  const report = await healing.execute('recovery.run', {
    trigger,
    deaths,
    queue,
    dryRun,
    maxAgeMs,
    pauseReason,
    healer,
    only: locksOnly ? 'locks' : undefined,
  })
  if (!dryRun) logRecovery(healing.log, report, trigger, environment.monotonic() - started)
  return report
}

/** Opening a store ends one page of them, and leaves the rest to sweeps. */
async function endSilent(healing: Healing): Promise<number> {
  const pages = await allPages(
    async (after?: string) => {
      const { instances, next } = await healing.execute('instance.listSilent', { after })
      return { ended: await endAmong(healing, instances), next }
    },
    () => healing.trigger === 'open' || healing.isOver?.() === true,
  )
  return sumOf(pages, ({ ended }) => ended)
}

/**
 * Processes on other machines that vanished without a word (killed containers) would stay listed for ever, because
 * nobody here can judge them. Those that have long been silent and hold nothing are ended; one that is alive after all
 * rejoins.
 */
export async function endAmong(
  { environment, storeIsLocal, execute, healer }: Judging & Pick<Healing, 'healer'>,
  silent: readonly Instance[],
): Promise<number> {
  const ids = silent
    .filter((instance) => environment.host.judge(instance, storeIsLocal).liveness === 'unknown')
    .map(({ id }) => id)
  if (ids.length === 0) return 0
  return execute('instance.endSilent', { ids, healer })
}

/** Each reclaim has its event; one log line per item would bury everything else. */
const maxReclaimedLines = 10

/** Logs one line for the whole recovery, and one for each of the first ten things taken from a lost holder. */
export function logRecovery(log: Log, report: RecoveryReport, trigger: RecoveryTrigger, ms: number): void {
  if (isNothing(report)) return
  for (const { kind, id, holder, expiredForMs, evidence } of report.reclaimed.slice(0, maxReclaimedLines)) {
    log('warn', 'lease.reclaimed', { kind, id, holder, expiredForMs, evidence })
  }
  logSummary(log, report, trigger, ms)
}

function isNothing({ locksCleaned, entriesReclaimed, messagesReclaimed }: RecoveryReport): boolean {
  return locksCleaned + entriesReclaimed + messagesReclaimed === 0
}

function logSummary(log: Log, report: RecoveryReport, trigger: RecoveryTrigger, ms: number): void {
  const { locksCleaned, entriesReclaimed, quarantined, messagesReclaimed } = report
  log('info', 'recovery.completed', {
    trigger,
    locksCleaned,
    entriesReclaimed,
    quarantined,
    messagesReclaimed,
    ms: Math.round(ms),
  })
}

/** How much of each kind a recovery did. */
export function countsOf({ recoveryTimestamp, ids, byState, reclaimed, more, ...counts }: RecoveryReport) {
  return counts
}

/** Adds up reports, in order; there must be at least one. */
export function addReports(reports: readonly RecoveryReport[]): RecoveryReport {
  const counts = sumByName(reports.flatMap((report) => Object.entries(countsOf(report))))
  return {
    ...(reports.at(-1) as RecoveryReport),
    ...(counts as ReturnType<typeof countsOf>),
    ids: reports.flatMap(({ ids }) => ids),
    byState: sumByName(reports.flatMap(({ byState }) => Object.entries(byState))),
    reclaimed: reports.flatMap(({ reclaimed }) => reclaimed),
  }
}
