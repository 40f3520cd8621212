/** Verbs of the merge workflow. */
import { verb } from '../verb.ts'
import { isItemOver, itemLine } from './item-text.ts'
import { failInput, failOptions } from './queue-work.ts'

const held = { noun: 'item', holds: 'item', isOver: isItemOver, text: itemLine } as const

export const queueMergeVerbs = [
  verb({
    name: 'update-rebase-metadata',
    operation: 'queue.updateRebaseMetadata',
    positional: ['queue', 'ref'],
    ...held,
  }),
  verb({
    name: 'is-fresh',
    noun: 'fresh',
    operation: 'queue.isFresh',
    positional: ['queue', 'ref', 'mainSha'],
    says: { yes: 'fresh', no: 'not fresh' },
  }),
  verb({
    name: 'return-to-rebasing',
    operation: 'queue.returnToRebasing',
    positional: ['queue', 'ref', 'mainSha'],
    ...held,
  }),
  verb({
    name: 'begin-merge',
    operation: 'queue.beginMerge',
    positional: ['queue', 'ref'],
    ...held,
  }),
  verb({
    name: 'complete-merge',
    operation: 'queue.completeMerge',
    positional: ['queue', 'ref', 'mergedSha'],
    ...held,
    completes: true,
  }),
  verb({
    name: 'fail-merge',
    operation: 'queue.failMerge',
    positional: ['queue', 'ref', 'error'],
    hides: ['backoff'],
    negatable: { retryable: 'retrying cannot help' },
    options: failOptions,
    shape: failInput,
    ...held,
  }),
]
