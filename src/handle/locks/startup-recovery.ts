/** `locks.recoverLocksOnStartup()`: what recovery freed, here and at open, and what others keep. */
import type { RecoveryReport } from '../../operations/recovery/report.ts'
import type { AskedOf } from '../../operations/table.ts'
import type { LockView } from '../../operations/view.ts'
import { sumOf } from '../../runtime/session/input.ts'
import { allPages } from '../../runtime/session/pages.ts'
import type { Session } from '../../runtime/session/session.ts'
import type { StartupReport } from './lock-answers.ts'

const maxKept = 500

/** `atOpen`: what recovery did when the store was opened, if nobody has been told yet. */
export async function recoverOnStartup(
  session: Session,
  options: Pick<AskedOf<'recovery.run'>, 'pauseReason'>,
  atOpen: RecoveryReport | null,
): Promise<StartupReport> {
  const healed = await session.recovery.heal('open', options)
  const reports = atOpen === null ? [healed] : [atOpen, healed]
  return {
    locksReleased: sumOf(reports, ({ locksCleaned }) => locksCleaned),
    runsPaused: sumOf(reports, ({ runsPaused }) => runsPaused),
    waitersRemoved: sumOf(reports, ({ waitersRemoved }) => waitersRemoved),
    kept: await keptByOthers(session),
  }
}

async function keptByOthers(session: Session): Promise<LockView[]> {
  const { agent, instance } = session
  const isOthers = ({ holder, lease }: LockView) =>
    holder !== null && (lease.instance === null ? holder !== agent : lease.instance !== instance)
  const pages = await allPages(
    async (after?: string) => {
      const { locks, next } = await session.call('locks.list', { limit: maxKept, after })
      return { kept: locks.filter(isOthers), next }
    },
    (read) => sumOf(read, ({ kept }) => kept.length) >= maxKept,
  )
  return pages.flatMap(({ kept }) => kept).slice(0, maxKept)
}
