/** The public API, listed by hand: adding a line is a decision. */

export { type CopyProgress, type CopyReport, type CopyRequest, copyStore } from './copy/copy.ts'
export type { Adapter, Delivered } from './delivery/adapter.ts'
export { type CommandOptions, command } from './delivery/command.ts'
export { type WebhookOptions, webhook } from './delivery/webhook.ts'
export type { Envelope } from './domain/envelope.ts'
export type { QueuePosition } from './domain/queue-position.ts'
export type { EscalationLevel } from './domain/redelivery-policy.ts'
export type { State as WorkflowState, Workflow } from './domain/workflow.ts'
export type { StoreStatus } from './engines/engine.ts'
export {
  AttemptsExhaustedError,
  DuplicateError,
  type ErrorCode,
  errorCodes,
  HeldError,
  HoldfastError,
  IllegalMoveError,
  InvalidError,
  isHoldfastError,
  isVersionMismatchError,
  LeaseLostError,
  NotFoundError,
  VersionMismatchError,
} from './errors.ts'
export type { Agent, Agents } from './handle/agents.ts'
export type { DoctorVisit, Fleet, FleetReport, FleetThing, FleetWatchOptions } from './handle/fleet.ts'
export { type EventOptions, type Holdfast, open } from './handle/holdfast.ts'
export type {
  AcquiredLock,
  AcquireOptions,
  BatchReport,
  Locks,
  ReservedPaths,
  ReserveOptions,
  RunBatchOptions,
  StartupReport,
} from './handle/locks.ts'
export type {
  AnswerOptions,
  MessagePageOptions,
  Messages,
  MessageType,
  NackOptions,
  RegisterOptions,
  SendOptions,
} from './handle/messages.ts'
export type {
  AddOptions,
  BackoffOptions,
  Claim,
  ClaimOptions,
  FailOptions,
  ListOptions,
  ManyClaims,
  MutationOptions,
  OperatorOptions,
  OwnClaimOptions,
  ProcessingLock,
  Queue,
  QueueItem,
  QueueOptions,
  QueueStats,
  SubmitOptions,
  TokenOptions,
  WaitOptions,
} from './handle/queue.ts'
export type { Runs } from './handle/runs.ts'
export type {
  State,
  StateEntry,
  StateOptions,
  StateSetOptions,
  States,
  StateUpdate,
  StateUpdateOptions,
  StateWatchOptions,
} from './handle/state.ts'
export type {
  AddTaskOptions,
  BatchClaim,
  ClaimNextOptions,
  ClaimTaskOptions,
  ListTasksOptions,
  NextTask,
  RemoveTaskOptions,
  Task,
  TaskChanges,
  TaskClaim,
  TaskFilter,
  Tasks,
  UpdateTaskOptions,
} from './handle/tasks.ts'
export type { BatchContext, BatchHandler, BatchItems, BatchOptions } from './handle/worker/batch.ts'
export type { Handler, WorkContext, Worker, WorkOptions } from './handle/worker/worker.ts'
export type { WorkerEventName, WorkerEvents, WorkerListener } from './handle/worker/worker-events.ts'
export { importBeads } from './import/beads.ts'
export { importEvaluationLocks } from './import/evaluation-locks.ts'
export { importExarpGo } from './import/exarp-go.ts'
export { importPendingAcks, type PendingAcksReport } from './import/pending-acks.ts'
export type { BadRow, ImportOptions, ImportProgress, ImportReport, ImportSource } from './import/report.ts'
export type { TextSource } from './import/source.ts'
export { importZjj, type ZjjOptions } from './import/zjj.ts'
export { type Logger, type LogName, logNames } from './logger.ts'
export type { EventView as Event } from './operations/event/event.ts'
export type { DoctorReport } from './operations/fleet/doctor.ts'
export type { FleetExplanation } from './operations/fleet/explain.ts'
export type { FleetStatus } from './operations/fleet/fleet.ts'
export type { PrimePage } from './operations/fleet/prime.ts'
export type { LockStatus, StaleLocks } from './operations/lease/watch.ts'
export type { LockInfo } from './operations/lock/read.ts'
export type { AckAnswer, MessageAnswer } from './operations/message/answer.ts'
export type { RecipientView as Recipient } from './operations/message/control.ts'
export type { LetterPage, MessagePage } from './operations/message/read.ts'
export type { Sent } from './operations/message/send.ts'
export type { LetterView as Letter, MessageView as Message } from './operations/message/view.ts'
export type { QueueView as QueueInfo } from './operations/queue/define.ts'
export type { RecoveryReport } from './operations/recovery/recovery.ts'
export type { RecoveryStats } from './operations/recovery/stats.ts'
export type { ProgressView as Progress } from './operations/run/view.ts'
export type { StateHistory } from './operations/state/history.ts'
export type { SavedView as SavedState, StatePage } from './operations/state/state.ts'
export type {
  AskedOf as OperationInput,
  OperationName,
  ResultOf as OperationResult,
} from './operations/table.ts'
export type { LockCleanup } from './operations/task/cleanup.ts'
export type { TaskHints } from './operations/task/hint.ts'
export type { LockView as Lock } from './operations/view.ts'
export type { OpenOptions } from './options.ts'
export type { Lease } from './runtime/lease/keeper.ts'
export type { CleanupOptions } from './runtime/lease/lock-cleanup.ts'
export type { LeaseRenewal, RenewalOptions } from './runtime/lease/renewal.ts'
export type { StaleLocksOptions } from './runtime/lease/stale-locks.ts'
export type { RetryCounts } from './runtime/redelivery/redelivery.ts'
export type { StoreRecoveryReport } from './runtime/session/session.ts'
