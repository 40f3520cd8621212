/** Claiming several tasks at once, all or nothing. */
import * as z from 'zod'
import type { Item } from '../../domain/item.ts'
import { taskQueue } from '../../domain/task.ts'
import { isHoldfastError } from '../../errors.ts'
import type { Decision } from '../../port/decision.ts'
import { claimant } from '../agent/claimant.ts'
import { operation, reply, type Step } from '../operation.ts'
import { closedBlockers, requireItem } from '../subject.ts'
import { viewItem } from '../view.ts'
import { answerOf, type BatchClaimOutcome, batchOutcome, type Refused } from './claim-outcome.ts'
import {
  changesOf,
  claimInput,
  claimOne,
  grantsOf,
  lossesOf,
  type MadeClaim,
  requestOf,
  withProcesses,
} from './task-claim.ts'
import { ref, viewTask } from './view.ts'

const maxBatch = 100

export const batchClaim = operation({
  name: 'tasks.batchClaim',
  summary: 'Claim up to 100 tasks, all or nothing. Says why each refused one cannot be claimed.',
  effect: 'write',
  introduces: 'unbound',
  claims: () => taskQueue,
  grants: 'item',
  input: () => ({
    refs: z.array(ref()).min(1).max(maxBatch).describe('Ids or keys of the tasks.'),
    leaseMs: claimInput().leaseMs,
  }),
  output: batchOutcome,
  needs: ({ refs }, caller) => ({
    defined: { select: 'queue', name: taskQueue },
    process: claimant(caller),
    closed: closedBlockers,
    ...Object.fromEntries(
      refs.map((each) => [`task ${each}`, { select: 'item', queue: taskQueue, ref: each }]),
    ),
  }),
  decide(rows, input, context): Step<BatchClaimOutcome> {
    const { defined, process, closed } = rows
    const request = requestOf(input, process, defined, context)
    if (defined?.queue.pausedAt != null)
      return reply({ outcome: 'paused', reason: defined.queue.pauseReason })
    const found = input.refs.map(
      (each) => (rows as unknown as Record<string, Item | null>)[`task ${each}`] ?? null,
    )
    return withProcesses(found, context, (processes): Decision<BatchClaimOutcome> => {
      const tried = input.refs.map((each, index) =>
        attempt(each, () => {
          const item = requireItem(found[index] ?? null, taskQueue, each)
          return claimOne(item, { defined, processes, closed }, request, context)
        }),
      )
      const failed = tried.flatMap((each) => ('failed' in each ? [each.failed] : []))
      if (failed.length > 0) return reply({ outcome: 'refused', claimed: [], failed })
      // A task named twice, by id and by key, is claimed once.
      const claims = new Map(
        tried.flatMap((each) => ('claim' in each ? [[each.claim.after.id, each.claim]] : [])),
      )
      return {
        changes: [
          ...[...claims.values()].flatMap((claim) => changesOf(claim, context)),
          ...lossesOf([...claims.values()], processes, context),
        ],
        result: {
          outcome: 'claimed',
          tasks: [...claims.values()].map(({ after }) => viewTask(viewItem(after, context.now))),
        },
        granted: [...claims.values()].flatMap(grantsOf),
      }
    })

    function attempt(name: string, claiming: () => MadeClaim): { claim: Granted } | { failed: Refused } {
      try {
        const claim = claiming()
        if (claim.outcome === 'claimed') return { claim }
        return { failed: { ref: name, ...answerOf(claim, context.now) } as Refused }
      } catch (error) {
        if (!isHoldfastError(error)) throw error
        return { failed: { ref: name, outcome: 'impossible', code: error.code, reason: error.message } }
      }
    }
  },
})

type Granted = Extract<MadeClaim, { outcome: 'claimed' }>
