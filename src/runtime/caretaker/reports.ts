/** How the caretaker reports to its process. */
import type { Log } from '../../logger.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'

export interface CaretakerReports {
  lost(lease: LeaseRef): void
  /** This process continues as a new instance: the old one was taken for dead. */
  rejoined(instance: string): void
  readonly log: Log
}
