/** Processes: how a command names them. */
import type { Claimant, Instance, Process } from '../domain/instance.ts'
import type { Page } from './page.ts'

/** What these processes hold. Rows that others are working on are skipped, unless `waits`. */
export interface OfInstances {
  readonly instances: readonly string[]
  /** Only what this agent holds: others may have bound claims of theirs to the same process. */
  readonly agent?: string
  readonly limit: number
  readonly waits?: true
}

type Machine = Pick<Instance, 'bootId' | 'hostName' | 'pidNamespace'>

export interface InstanceSelectors {
  instances: [{ ids: readonly string[] }, readonly Instance[]]
  processes: [{ instances: readonly string[] }, readonly Process[]]
  /** Instances that have not ended. */
  runningInstances: [{ limit: number }, readonly Instance[]]
  /**
   * Running instances of one machine, or of one process on it, by start; with `otherBoots`, also of its earlier boots.
   */
  machineInstances: [
    { machine: Machine; pid: number | null; otherBoots: boolean; after: string | null; limit: number },
    Page<Instance>,
  ]
  /** Instances that beat and have been silent for this long on the lease clock, longest first. */
  silentInstances: [{ silentMs: number; after: string | null; limit: number }, Page<Instance>]
  /** How many items, locks, places in line and deliveries instances hold, even if others are working on those rows. */
  heldByInstances: [
    { instances: readonly string[] },
    readonly { readonly instance: string; readonly count: number }[],
  ]
  /**
   * When these last beat or renewed something, in awake time of their machine; omits those for which that is unknown.
   */
  awakeTimes: [
    { instances: readonly string[] },
    readonly { readonly instance: string; readonly awakeAt: number }[],
  ]
  /** Running processes of one machine that sweep and have beaten recently, in all namespaces, oldest first. */
  healers: [{ machine: Machine; silentMs: number; limit: number }, readonly Instance[]]
  /**
   * Running processes that a process of this machine can judge, in all namespaces but this one. `awakeAt`: when it last
   * beat, in awake time of its machine; null if unknown.
   */
  otherProcesses: [
    { machine: Machine; otherBoots: boolean; after: string; limit: number },
    Page<{ readonly namespace: string; readonly instance: Instance; readonly awakeAt: number | null }>,
  ]
  /** Ended instances that still hold something, by their end. */
  endedHolders: [{ after: string | null; limit: number }, Page<Instance>]
  /** The process behind a claim by this caller. */
  claimant: [{ agent: string; instance: string | null }, Claimant]
  /** The process someone registered for an agent, if it has not ended. */
  registeredInstance: [{ agent: string }, Instance | null]
  instancesEndedBefore: [{ before: number; limit: number }, readonly Instance[]]
}
