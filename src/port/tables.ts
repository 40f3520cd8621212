/** Every table, and its rows as the rules see them. */
import type { Allowance } from '../domain/allowance.ts'
import type { Delivery } from '../domain/delivery.ts'
import type { Horizon } from '../domain/horizon.ts'
import type { Instance } from '../domain/instance.ts'
import type { Item } from '../domain/item.ts'
import type { Lock } from '../domain/lock.ts'
import type { Waiter } from '../domain/lock-line.ts'
import type { Message } from '../domain/message.ts'
import type { Queue } from '../domain/queue.ts'
import type { Addressable, Recipient } from '../domain/recipient.ts'
import type { Outcome, Run } from '../domain/run.ts'
import type { State, StateFloor } from '../domain/state.ts'
import type { Answer } from './answer.ts'
import type { Checkpoint, ImageRow, SealedEvents } from './event.ts'
import type { Cascade } from './item.ts'
import type { WorkflowRow } from './queue.ts'
import type { RecoveryFailure, RecoveryRun, RecoveryTotal } from './recovery.ts'

export interface Tables {
  item: Item
  lock: Lock
  waiter: Waiter
  run: Run
  outcome: Outcome
  queue: Queue
  workflow: WorkflowRow
  instance: Instance
  answer: Answer
  recoveryRun: RecoveryRun
  recoveryTotal: RecoveryTotal
  recoveryFailure: RecoveryFailure
  cascade: Cascade
  checkpoint: Checkpoint
  horizon: Horizon
  image: ImageRow
  state: State
  stateFloor: StateFloor
  sealedEvents: SealedEvents
  /** In a damaged row, `policy` and `escalation` are null or anything at all: the rules check before they use them. */
  message: Message
  delivery: Delivery
  recipient: Recipient
  addressable: Addressable
  /** In a damaged row, `marks` is null: nothing was counted. */
  allowance: Allowance
}
