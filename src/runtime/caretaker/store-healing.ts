/**
 * Heals namespaces that have no process of their own to do so. A bounded read finds where something is due or a process
 * has died, and the ordinary recovery runs there. Two processes doing this at once do no harm: each lease is reclaimed
 * only once.
 */
import { type Healer, isHealerFor } from '../../domain/healer.ts'
import type { Instance } from '../../domain/instance.ts'
import { messageOf } from '../../errors.ts'
import type { RecoveryReport } from '../../operations/recovery/report.ts'
import type { InputOf, OperationName, ResultOf } from '../../operations/table.ts'
import { addReports, countsOf, findDeaths, type Healing, heal } from './heal.ts'

export interface StoreHealing extends Healing {
  executeIn<Name extends OperationName>(
    namespace: string,
    operation: Name,
    input: InputOf<Name>,
  ): Promise<ResultOf<Name>>
}

/** Where the next survey continues; '' is the beginning, undefined the end. */
interface Cursor {
  readonly namespaces: string | undefined
  readonly processes: string | undefined
}

/** Time limit of one visit: the next visit finds the rest. */
const visitMs = 1_000

const beginning: Cursor = { namespaces: '', processes: '' }

export function healerOf({ environment }: Pick<Healing, 'environment'>): Healer {
  const { hostName, pid } = environment.host.identity
  return { host: hostName, pid }
}

/** Whether this process should heal other namespaces, as far as it can judge the other healers on its machine. */
export function isUpTo(
  self: string,
  healers: readonly Instance[],
  { environment, storeIsLocal }: Pick<Healing, 'environment' | 'storeIsLocal'>,
): boolean {
  const running = healers.filter((instance) => {
    const { liveness, isStopped } = environment.host.judge(instance, storeIsLocal)
    return instance.id === self || (liveness !== 'dead' && isStopped !== true)
  })
  return isHealerFor(
    self,
    running.map(({ id }) => id),
  )
}

async function surveyed(healing: StoreHealing, { namespaces, processes }: Cursor) {
  const { environment, storeIsLocal } = healing
  const { bootId, hostName, pidNamespace } = environment.host.identity
  const machine = { bootId, hostName, pidNamespace }
  const found = await healing.execute('recovery.survey', {
    ...(namespaces === undefined ? {} : { namespaces: { after: namespaces } }),
    ...(processes === undefined
      ? {}
      : { processes: { machine, otherBoots: storeIsLocal, after: processes } }),
  })
  const dead = found.processes
    .filter((each) => environment.host.judge(each, storeIsLocal).liveness === 'dead')
    .map(({ namespace }) => namespace)
  return {
    namespaces: [...new Set([...found.due, ...dead])].sort(),
    next: {
      namespaces: found.namespacesNext ?? undefined,
      processes: found.processesNext ?? undefined,
    },
  }
}

/** Runs the ordinary recovery in another namespace. Log lines name the namespace. */
async function healNamespace(healing: StoreHealing, namespace: string): Promise<RecoveryReport> {
  const there: Healing = {
    ...healing,
    execute: (operation, input) => healing.executeIn(namespace, operation, input),
    log: (level, name, facts) => healing.log(level, name, { namespace, ...facts }),
  }
  return heal(there, await findDeaths(there))
}

/** Visits one namespace after another, round and round. One that takes long, or fails, does not block the others. */
export class StoreHealer {
  readonly #beginning: Cursor
  #cursor: Cursor
  #last = ''
  #visiting: Promise<void> | null = null

  /** Looks for dead processes only, if the given cursor has no namespaces. */
  constructor(from = beginning) {
    this.#beginning = from
    this.#cursor = from
  }

  async close(): Promise<void> {
    await this.#visiting
  }

  /** Starts a visit, unless one is under way. Our own namespace does not wait, however much there is to do elsewhere. */
  begin(healing: StoreHealing): void {
    const { log, trigger } = healing
    this.#visiting ??= this.#visit(healing)
      .catch((error: unknown) => log('warn', 'recovery.failed', { trigger, error: messageOf(error) }))
      .finally(() => {
        this.#visiting = null
      })
  }

  async #visit(healing: StoreHealing): Promise<void> {
    const { environment } = healing
    const until = environment.monotonic() + visitMs
    const isOver = () => healing.isOver?.() === true || environment.monotonic() > until
    const { namespaces, next } = await surveyed(healing, this.#cursor)
    const inTurn = [
      ...namespaces.filter((name) => name > this.#last),
      ...namespaces.filter((name) => name <= this.#last),
    ]
    for (const namespace of inTurn) {
      if (isOver()) return
      this.#last = namespace
      await this.#healOne({ ...healing, isOver }, namespace)
    }
    this.#cursor = {
      namespaces: next.namespaces ?? this.#beginning.namespaces,
      processes: next.processes ?? this.#beginning.processes,
    }
  }

  async #healOne(healing: StoreHealing, namespace: string): Promise<void> {
    try {
      await healNamespace(healing, namespace)
    } catch (error) {
      const { trigger } = healing
      healing.log('warn', 'recovery.failed', { trigger, namespace, error: String(error) })
    }
  }
}

/** Adds what was done in all other namespaces to `own`. Throws only at the end: one that fails stops no other. */
export async function healOthers(healing: StoreHealing, own: RecoveryReport) {
  let total = own
  const namespaces: string[] = []
  const failures: unknown[] = []
  const seen = new Set<string>()
  for (let cursor: Cursor = beginning; isUnfinished(cursor); ) {
    const found = await surveyed(healing, cursor)
    cursor = found.next
    for (const namespace of found.namespaces.filter((name) => !seen.has(name))) {
      seen.add(namespace)
      const report = await healNamespace(healing, namespace).catch((error: unknown) => {
        failures.push(error)
        return null
      })
      if (report === null || didNothing(report)) continue
      namespaces.push(namespace)
      const reclaimed = report.reclaimed.map((each) => ({ ...each, namespace }))
      total = addReports([total, { ...report, reclaimed }])
    }
  }
  if (failures.length > 0) throw failures[0]
  return { ...total, namespaces }
}

function isUnfinished({ namespaces, processes }: Cursor): boolean {
  return namespaces !== undefined || processes !== undefined
}

function didNothing(report: RecoveryReport): boolean {
  return Object.values(countsOf(report)).every((count) => count === 0)
}
