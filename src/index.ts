/** The public API, listed by hand: adding a line is a decision. */

export { type CopyRequest, copyStore } from './copy/copy.ts'
export type { CopiedTable, CopyBeginning, CopyProgress, CopyReport } from './copy/report.ts'
export type { Running as RunningProcess } from './copy/running.ts'
export type { Adapter, AdapterOptions, Delivered } from './delivery/adapter.ts'
export { type CommandOptions, command } from './delivery/command.ts'
export { type WebhookOptions, webhook } from './delivery/webhook.ts'
export type { Envelope } from './domain/envelope.ts'
export type { Json } from './domain/json.ts'
export type { Escalation } from './domain/message.ts'
export type { QueuePosition } from './domain/queue-position.ts'
export type { Quotas } from './domain/quota.ts'
export type { EscalationLevel } from './domain/redelivery-policy.ts'
export type { TaskStatus } from './domain/task.ts'
export type { State as WorkflowState, WorkflowDefinition as Workflow } from './domain/workflow.ts'
export type { Liveness } from './environment.ts'
export { type ErrorCode, errorCodes } from './error-codes.ts'
export type { CommitFacts, ErrorFacts, Facts, VersionFacts } from './error-facts.ts'
export {
  AttemptsExhaustedError,
  DuplicateError,
  type ErrorParts,
  HeldError,
  HoldfastError,
  type HoldfastErrorOf,
  IllegalMoveError,
  InvalidError,
  isHoldfastError,
  isVersionMismatchError,
  LeaseLostError,
  NotFoundError,
  VersionMismatchError,
} from './errors.ts'
export type { Agent, Agents } from './handle/agents.ts'
export type {
  AgentOptions,
  ClaimOptions,
  MutationOptions,
  OptionsFor,
  Own as OwnOptions,
  OwnClaimOptions,
  TokenOptions,
  WaitOptions,
} from './handle/call-options.ts'
export type { EventOptions } from './handle/event-feed.ts'
export type { DoctorVisit, Fleet, FleetReport, FleetThing, FleetWatchOptions } from './handle/fleet.ts'
export type { Holdfast } from './handle/holdfast.ts'
export type {
  AcquiredLock,
  BatchReport,
  GrantedLock,
  LockedWork,
  ReservedPaths,
  StartupReport,
} from './handle/locks/lock-answers.ts'
export type {
  AcquireOptions,
  ReserveOptions,
  RunBatchOptions,
  WithLockOptions,
} from './handle/locks/lock-options.ts'
export type { Locks } from './handle/locks/locks.ts'
export type {
  Messages,
  MessageType,
  NackOptions,
  RegisterOptions,
  SendOptions,
} from './handle/messages.ts'
export { open } from './handle/open.ts'
export type { Storable } from './handle/payload.ts'
export type { Queue } from './handle/queue/queue.ts'
export type {
  Claim,
  ManyClaims,
  ProcessingLock,
  QueueItem,
  QueueStats,
  RetryReport,
} from './handle/queue/queue-answers.ts'
export type {
  AddOptions,
  BackoffOptions,
  FailOptions,
  ListOptions,
  NewItem,
  OperatorOptions,
  ProcessingLockOptions,
  QueueOptions,
  ReclaimOptions,
  RetryFailedOptions,
  SubmitOptions,
} from './handle/queue/queue-options.ts'
export type {
  RecordOptions as RunRecordOptions,
  Runs,
  StartOptions as RunStartOptions,
} from './handle/runs.ts'
export type {
  State,
  StateEntry,
  StateListOptions,
  StateOptions,
  StateSetOptions,
  States,
  StateUpdate,
  StateUpdateOptions,
  StateWatchOptions,
} from './handle/state.ts'
export type { BatchClaim, NextTask, Task, TaskClaim } from './handle/tasks/task-answers.ts'
export type {
  AddTaskOptions,
  ClaimNextOptions,
  ClaimTaskOptions,
  ListTasksOptions,
  RemoveTaskOptions,
  TaskChanges,
  UpdateTaskOptions,
} from './handle/tasks/task-options.ts'
export type { Tasks } from './handle/tasks/tasks.ts'
export type { BatchContext, BatchHandler, BatchItems, BatchOptions } from './handle/worker/batch-options.ts'
export type { Handler, WorkContext, WorkOptions } from './handle/worker/work-options.ts'
export type { Worker } from './handle/worker/worker.ts'
export type { WorkerEventName, WorkerEvents, WorkerListener } from './handle/worker/worker-events.ts'
export { importBeads } from './import/beads.ts'
export { importEvaluationLocks } from './import/evaluation-locks.ts'
export { importExarpGo } from './import/exarp-go.ts'
export { importPendingAcks, type PendingAcksReport } from './import/pending-acks.ts'
export type { BadRow, ImportOptions, ImportProgress, ImportReport, ImportSource } from './import/report.ts'
export type { TextSource } from './import/source.ts'
export { importZjj, type ZjjOptions } from './import/zjj.ts'
export { type LogName, logNames } from './log-lines.ts'
export type { LogFacts, Logger } from './logger.ts'
export type { AgentView as AgentProcess } from './operations/agent/agent.ts'
export type { EventView as Event } from './operations/event/event.ts'
export type { EventFilter } from './operations/event/filter.ts'
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
export type { RecoveryReport } from './operations/recovery/report.ts'
export type { RecoveryStats } from './operations/recovery/stats.ts'
export type { StopAnswer } from './operations/run/read.ts'
export type { RecordedRun } from './operations/run/record.ts'
export type { RunView as Run } from './operations/run/view.ts'
export type {
  SavedView as SavedState,
  StateHistory,
  StatePage,
  StateView as StateDocument,
} from './operations/state/state.ts'
export type {
  AskedOf as OperationInput,
  OperationName,
  ResultOf as OperationResult,
} from './operations/table.ts'
export type { LockCleanup } from './operations/task/cleanup.ts'
export type { TaskHints } from './operations/task/hint.ts'
export type { ItemView as Item, LockView as Lock } from './operations/view.ts'
export type { OpenOptions, RecoveryOptions, RetentionOptions } from './options.ts'
export type { StoreStatus, StoreWarning } from './port/engine.ts'
export type { Lease } from './runtime/lease/held-lease.ts'
export type { CleanupOptions } from './runtime/lease/lock-cleanup.ts'
export type { LeaseRenewal, RenewalOptions } from './runtime/lease/renewal.ts'
export type { StaleLocksOptions } from './runtime/lease/stale-locks.ts'
export type { RetryCounts } from './runtime/redelivery/delivery-passes.ts'
export type { RecoverOptions, StoreRecoveryReport } from './runtime/session/recovery.ts'
export type { ClaimWait } from './runtime/waiting/claim-wait.ts'
