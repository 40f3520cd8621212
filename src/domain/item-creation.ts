/** A new item. */

import { InvalidError } from '../errors.ts'
import { dependenciesOf, type NewDependencies } from './dependency.ts'
import { type Item, settle } from './item.ts'
import type { Workflow } from './workflow.ts'

export const priorityDefault = 5

export interface NewItem extends NewDependencies {
  readonly queue: string
  readonly priority?: number | undefined
  readonly key?: string | null | undefined
  readonly dedupeKey?: string | null | undefined
  readonly runAt?: number | null | undefined
  readonly maxAttempts: number
  readonly submittedBy: string | null
  readonly payload: string
  readonly data: Item['data']
  /** Tokens start above this, because an earlier item with the same key may have used it. */
  readonly tokenFloor?: number | undefined
}

export function createItem(input: NewItem, workflow: Workflow, wall: number): Item {
  const { parent, ancestors, blockers, waitingFor } = dependenciesOf(input)
  return settle(
    {
      id: input.id,
      queue: input.queue,
      workflow: workflow.name,
      state: workflow.initial,
      phase: 'waiting',
      priority: input.priority ?? priorityDefault,
      key: input.key ?? null,
      dedupeKey: input.dedupeKey ?? null,
      parent,
      ancestors,
      blockers,
      waitingFor,
      runAt: input.runAt != null && input.runAt > wall ? input.runAt : null,
      offeredTo: null,
      attempts: 0,
      failures: 0,
      crashes: 0,
      exposures: 0,
      suspectedAt: null,
      progressAtLoss: null,
      crashResets: 0,
      maxAttempts: input.maxAttempts,
      quarantinedAt: null,
      quarantineReason: null,
      cancelRequestedAt: null,
      submittedBy: input.submittedBy,
      addedAt: wall,
      startedAt: null,
      stateChangedAt: wall,
      closedAt: null,
      outcome: null,
      previousState: null,
      version: 1,
      agent: null,
      instance: null,
      token: input.tokenFloor ?? 0,
      grantedAt: null,
      renewedAt: null,
      expiresAt: null,
      leaseMs: null,
      holderHost: null,
      error: null,
      progress: null,
      result: null,
      data: input.data,
      payload: input.payload,
    },
    workflow,
  )
}

interface Due {
  readonly runAt?: number | null | undefined
  readonly delayMs?: number | undefined
}

/** The requested time; undefined if none was given. */
export function dueAt({ runAt, delayMs }: Due, wall: number): number | null | undefined {
  if (delayMs === undefined) return runAt
  if (runAt === undefined) return wall + delayMs
  throw new InvalidError({
    what: '`runAt` and `delayMs` cannot both be given',
    next: 'give one of them',
  })
}
