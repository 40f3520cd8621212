/** Every way to name rows: the closed list of selectors, and the types of what they load. */
import type { AnswerSelectors } from './answer.ts'
import type { EventSelectors } from './event.ts'
import type { InstanceSelectors } from './instance.ts'
import type { ItemSelectors } from './item.ts'
import type { LockSelectors } from './lock.ts'
import type { MessageSelectors } from './message.ts'
import type { QueueSelectors } from './queue.ts'
import type { RecoverySelectors } from './recovery.ts'
import type { RunSelectors } from './run.ts'
import type { StateSelectors } from './state.ts'
import type { TaskSelectors } from './task.ts'

/**
 * Every way to name rows: [arguments, what is loaded]. `waits`: wait for rows that others are working on instead of
 * skipping them.
 */
export interface Selectors
  extends AnswerSelectors,
    EventSelectors,
    InstanceSelectors,
    ItemSelectors,
    LockSelectors,
    MessageSelectors,
    QueueSelectors,
    RecoverySelectors,
    RunSelectors,
    StateSelectors,
    TaskSelectors {}

export type Selector = {
  [Name in keyof Selectors]: { readonly select: Name } & Readonly<Selectors[Name][0]>
}[keyof Selectors]
export type Needs = Readonly<Record<string, Selector | null>>

type Row<S> = S extends { select: infer Kind extends keyof Selectors } ? Selectors[Kind][1] : null

export type Loaded<N extends Needs> = { readonly [Name in keyof N]: Row<N[Name]> }
