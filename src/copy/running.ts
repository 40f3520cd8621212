/** The processes still working on the store to be copied. */
import type { Instance } from '../domain/instance.ts'
import { type Transfer, type TransferTable, transferTables } from '../engines/transfer.ts'
import type { Environment } from '../environment.ts'
import { HoldfastError } from '../errors.ts'
import { Pages } from './pages.ts'

/**
 * A process beats every 30 s. One on another machine that missed four beats is gone or cut off; if it comes back, the
 * store refuses it.
 */
const silentMs = 2 * 60_000

/** A process that has a store open. */
export interface Running {
  /** Where it is registered. */
  readonly namespace: string
  /** Id of the process in the store. */
  readonly instance: string
  /** Whom it acts for. */
  readonly agent: string
  /** Its pid on its host. */
  readonly pid: number
  /** The machine it runs on. */
  readonly host: string
  /** How we know. */
  readonly evidence: string
}

const instanceTable = transferTables.find(({ rows }) => rows === 'instance') as TransferTable
const maxPage = 1_000

/**
 * `running`: proven alive, or neither proven dead nor silent for more than two minutes. `bereaved`: namespaces with a
 * process that is proven dead and not yet written off.
 */
export async function findProcesses(source: Transfer, environment: Environment) {
  const wall = await source.wallNow()
  const running: Running[] = []
  const bereaved = new Set<string>()
  for (const { namespace, instance } of await unended(source)) {
    const { liveness, evidence } = environment.host.judge(instance, source.engine === 'sqlite')
    if (liveness === 'dead') bereaved.add(namespace)
    else if (liveness === 'alive' || wall - instance.beatAt <= silentMs) {
      const { id, agent, pid, hostName } = instance
      running.push({ namespace, instance: id, agent, pid, host: hostName, evidence })
    }
  }
  return { running, bereaved: [...bereaved] }
}

async function unended(source: Transfer): Promise<{ namespace: string; instance: Instance }[]> {
  const found: { namespace: string; instance: Instance }[] = []
  const pages = new Pages(source, instanceTable)
  for (let rows = await pages.next(maxPage); rows.length > 0; rows = await pages.next(maxPage)) {
    for (const row of rows) {
      const instance = Object.fromEntries(
        instanceTable.columns.map(({ field }, index) => [field, row[index]]),
      )
      if (instance.endedAt === null)
        found.push({ namespace: String(row[0]), instance: instance as unknown as Instance })
    }
  }
  return found
}

export function assertNobodyRuns(location: string, running: readonly Running[]): void {
  if (running.length === 0) return
  const shown = running.slice(0, 5).map(({ agent, pid, host }) => `${agent} (pid ${pid} on ${host})`)
  const more = running.length > shown.length ? ` and ${running.length - shown.length} more` : ''
  throw new HoldfastError('HELD', {
    what: `the store ${location} is in use by ${shown.join(', ')}${more}; nothing was copied`,
    next: 'stop these processes, then run the copy again; a process on another machine counts as gone after two minutes of silence',
    facts: { subject: `store ${location}`, holder: shown.join(', '), expiresAt: null, location, running },
  })
}
