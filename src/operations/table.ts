/** The table of operations: everything Holdfast can do, by name. The interfaces are built from it. */
import type * as z from 'zod'
import type { Command } from '../port/command.ts'
import * as agent from './agent/agent.ts'
import * as instance from './agent/instance.ts'
import * as instanceEnd from './agent/instance-end.ts'
import * as event from './event/event.ts'
import { maxBatch } from './fields.ts'
import * as fleetDoctor from './fleet/doctor.ts'
import * as fleetExplain from './fleet/explain.ts'
import * as fleetFind from './fleet/find.ts'
import * as fleet from './fleet/fleet.ts'
import * as fleetPrime from './fleet/prime.ts'
import * as lease from './lease/lease.ts'
import * as leaseWarning from './lease/warning.ts'
import * as leaseWatch from './lease/watch.ts'
import * as lockAdmin from './lock/admin.ts'
import * as lockImport from './lock/import.ts'
import * as lockLine from './lock/line.ts'
import * as lock from './lock/lock.ts'
import * as lockRead from './lock/read.ts'
import * as reservation from './lock/reservation.ts'
import * as messageAnswer from './message/answer.ts'
import * as messageControl from './message/control.ts'
import * as messageImport from './message/import.ts'
import * as messageRead from './message/read.ts'
import * as messageRetry from './message/retry.ts'
import * as messageSend from './message/send.ts'
import * as messageSettle from './message/settle.ts'
import type { AnyOperation } from './operation.ts'
import * as queueAdd from './queue/add.ts'
import * as queueClaim from './queue/claim.ts'
import * as queueControl from './queue/control.ts'
import * as queueDefine from './queue/define.ts'
import * as queueDependents from './queue/dependents.ts'
import * as queueFinish from './queue/finish.ts'
import * as queueImport from './queue/import.ts'
import * as queueLine from './queue/line.ts'
import * as merge from './queue/merge.ts'
import * as processingLock from './queue/processing-lock.ts'
import * as queueRead from './queue/read.ts'
import * as queueSubmit from './queue/submit.ts'
import * as horizon from './recovery/horizon.ts'
import * as reclaimStale from './recovery/reclaim-stale.ts'
import * as recovery from './recovery/recovery.ts'
import * as retention from './recovery/retention.ts'
import * as recoveryStats from './recovery/stats.ts'
import * as recoverySurvey from './recovery/survey.ts'
import * as run from './run/control.ts'
import * as runRead from './run/read.ts'
import * as runRecord from './run/record.ts'
import * as state from './state/state.ts'
import * as stateUpdate from './state/update.ts'
import * as store from './store/store.ts'
import * as taskClaim from './task/claim.ts'
import * as taskCleanup from './task/cleanup.ts'
import * as taskFinish from './task/finish.ts'
import * as taskHint from './task/hint.ts'
import * as taskList from './task/list.ts'
import * as taskSeek from './task/seek.ts'
import * as task from './task/task.ts'

const all = [
  queueDefine.defineWorkflow,
  queueDefine.defineQueue,
  queueDefine.describe,
  queueDefine.checkOneStep,
  queueDefine.listQueues,
  queueDefine.pause,
  queueDefine.resume,
  queueAdd.add,
  queueAdd.addMany,
  queueSubmit.submit,
  queueImport.importItems,
  queueLine.peek,
  queueLine.look,
  queueClaim.next,
  queueClaim.nextWithLock,
  queueClaim.claimMany,
  queueFinish.renew,
  queueFinish.progress,
  queueFinish.move,
  queueFinish.complete,
  queueFinish.fail,
  queueFinish.release,
  queueDependents.freeDependents,
  queueControl.retry,
  queueControl.cancel,
  queueControl.setPriority,
  queueControl.releaseFromQuarantine,
  queueControl.remove,
  queueControl.cleanup,
  queueRead.get,
  queueRead.list,
  queueRead.position,
  queueRead.stats,
  processingLock.acquireProcessingLock,
  processingLock.releaseProcessingLock,
  processingLock.getProcessingLock,
  processingLock.isLockStale,
  processingLock.renewLock,
  processingLock.extendLock,
  lock.acquireLock,
  lockLine.look,
  lockLine.renew,
  lockLine.leave,
  lock.renewLock,
  lock.releaseLock,
  lockImport.importLocks,
  lockAdmin.forceRelease,
  lockAdmin.forceReleaseAgent,
  lockAdmin.transfer,
  lockRead.getCurrentLockInfo,
  lockRead.isLockedBy,
  lockRead.isAnyLocked,
  lockRead.list,
  reservation.reserve,
  reservation.whoHas,
  run.start,
  run.resume,
  runRecord.record,
  run.pause,
  run.fail,
  run.reopen,
  run.remove,
  runRead.get,
  runRead.list,
  runRead.outcomes,
  runRead.remaining,
  runRead.shouldStop,
  merge.updateRebaseMetadata,
  merge.isFresh,
  merge.returnToRebasing,
  merge.beginMerge,
  merge.completeMerge,
  merge.failMerge,
  recovery.run,
  recoverySurvey.look,
  recoverySurvey.survey,
  recoveryStats.stats,
  recoveryStats.noteFailure,
  reclaimStale.reclaimStale,
  lease.renew,
  lease.check,
  lease.ending,
  store.read,
  instance.start,
  instance.join,
  instance.beat,
  instanceEnd.end,
  instance.list,
  instance.listEndedHolders,
  store.noteCommitLoss,
  instance.listSilent,
  instance.endSilent,
  event.list,
  event.images,
  event.seal,
  horizon.settle,
  retention.run,
  state.get,
  state.version,
  state.set,
  state.remove,
  stateUpdate.look,
  stateUpdate.prefer,
  stateUpdate.giveWay,
  stateUpdate.save,
  state.list,
  state.history,
  task.addTask,
  task.getTask,
  taskList.listTasks,
  task.updateTask,
  task.checkUpdateConflict,
  taskClaim.claimTaskForAgent,
  taskClaim.claimNext,
  taskSeek.seek,
  taskClaim.batchClaim,
  taskFinish.renewLease,
  taskFinish.releaseTask,
  taskFinish.reviewTask,
  taskFinish.completeTask,
  taskFinish.handoff,
  taskFinish.removeTask,
  taskCleanup.cleanupExpiredLocks,
  taskCleanup.cleanupDeadAgentLocks,
  taskHint.hints,
  leaseWatch.getLockStatus,
  leaseWatch.detectStaleLocks,
  leaseWarning.listNear,
  leaseWarning.warnNear,
  agent.register,
  agent.beat,
  agent.list,
  messageSend.sendWithAck,
  messageAnswer.receiveAck,
  messageAnswer.nack,
  messageAnswer.progressAck,
  messageAnswer.markAsRead,
  messageRead.get,
  messageRead.inbox,
  messageRead.checkPendingAcks,
  messageRead.getPendingCount,
  messageRead.listDeadLetters,
  messageControl.register,
  messageControl.introduce,
  messageControl.clearPendingAcks,
  messageControl.redrive,
  messageControl.retain,
  messageImport.importPending,
  messageRetry.claimDue,
  messageRetry.record,
  messageSettle.settle,
  messageSettle.nextDue,
  fleet.status,
  fleetFind.find,
  fleetExplain.explain,
  fleetDoctor.doctor,
  fleetPrime.prime,
] as const

type Rows = (typeof all)[number]

/** Name of an operation. */
export type OperationName = Rows['name']

/** Maps each operation name to its type. Every call is typed through it. */
type Operations = { readonly [Each in Rows as Each['name']]: Each }

/** The input of an operation. */
export type InputOf<Name extends OperationName> = Given<z.input<Operations[Name]['input']>>

/** The same input without the facts that only the runtime may state: what every other caller can give. */
export type AskedOf<Name extends OperationName> = Omit<
  InputOf<Name>,
  NonNullable<Operations[Name]['facts']>[number]
>

/** The result of an operation. */
export type ResultOf<Name extends OperationName> = z.output<Operations[Name]['output']>

/** Operations only read their input, so its lists and fields are readonly. */
type Given<Value> = Value extends readonly (infer Each)[]
  ? readonly Given<Each>[]
  : Value extends object
    ? { readonly [Field in keyof Value]: Given<Value[Field]> }
    : Value

/** Executes an operation by name: the signature that every way of calling one shares. */
export type Execute = <Name extends OperationName>(
  operation: Name,
  input: InputOf<Name>,
) => Promise<ResultOf<Name>>

export const operations: ReadonlyMap<string, AnyOperation> = new Map(all.map((each) => [each.name, each]))

/** What a command carries besides its input: fresh ids and a random number, generated where the command is made. */
export function entropyFor(
  operation: string,
  input: unknown,
  source: { id(): string; random(): number },
): Command['entropy'] {
  // The input has not been checked yet and may be anything.
  const wanted = operations.get(operation)?.freshIds?.(Object(input)) ?? 0
  const ids: string[] = []
  while (ids.length < Math.min(wanted, maxBatch)) ids.push(source.id())
  return { ids, random: source.random() }
}
