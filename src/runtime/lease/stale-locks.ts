/** Reports on everything held, with what this machine can prove about the holders, and logs a summary. */
import type { StaleLocks } from '../../operations/lease/watch.ts'
import type { AskedOf, Execute } from '../../operations/table.ts'
import { deathsAmong, judgeRunning } from '../caretaker/heal.ts'
import type { Session } from '../session/session.ts'

/** From when on a lock counts as stale. */
export interface StaleLocksOptions extends Omit<AskedOf<'recovery.detectStaleLocks'>, 'queue'> {}

/** Above this many stale locks, a warning is logged. */
const staleAlert = 10

export async function reportStaleLocks(
  session: Session,
  options: StaleLocksOptions,
  of: { readonly queue?: string } = {},
): Promise<StaleLocks> {
  const deaths = deathsAmong(await judgeHolders(session))
  const report = await session.ask('recovery.detectStaleLocks', { ...of, deaths }, options)
  const { total, expiredCount, nearExpiryCount, staleCount, orphanedCount, suspectCount } = report
  const counts = { total, expiredCount, nearExpiryCount, staleCount, orphanedCount, suspectCount }
  session.logger.info?.(counts, 'locks.summary')
  if (staleCount > staleAlert) session.logger.warn(counts, 'locks.many_stale')
  return report
}

/** What this machine can say about every running process. */
export function judgeHolders(session: Session): ReturnType<typeof judgeRunning> {
  const execute: Execute = (operation, input) => session.call(operation, input)
  return judgeRunning({ environment: session.environment, storeIsLocal: session.storeIsLocal, execute })
}
