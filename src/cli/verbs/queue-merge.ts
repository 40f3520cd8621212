import { verb } from '../verb.ts'
import { isItemOver, itemLine } from './item-text.ts'
import { failInput, failOptions } from './queue-work.ts'

const held = { holds: 'item', isOver: isItemOver, text: itemLine } as const

const updateRebaseMetadata = verb({
  name: 'update-rebase-metadata',
  noun: 'item',
  operation: 'queue.updateRebaseMetadata',
  positional: ['queue', 'ref'],
  ...held,
})

const isFresh = verb({
  name: 'is-fresh',
  operation: 'queue.isFresh',
  positional: ['queue', 'ref', 'mainSha'],
  text: (fresh) => (fresh ? 'fresh' : 'not fresh'),
  json: (fresh) => ({ fresh }),
})

const returnToRebasing = verb({
  name: 'return-to-rebasing',
  noun: 'item',
  operation: 'queue.returnToRebasing',
  positional: ['queue', 'ref', 'mainSha'],
  ...held,
})

const beginMerge = verb({
  name: 'begin-merge',
  noun: 'item',
  operation: 'queue.beginMerge',
  positional: ['queue', 'ref'],
  ...held,
})

const completeMerge = verb({
  name: 'complete-merge',
  noun: 'item',
  operation: 'queue.completeMerge',
  positional: ['queue', 'ref', 'mergedSha'],
  ...held,
  completes: true,
})

const failMerge = verb({
  name: 'fail-merge',
  noun: 'item',
  operation: 'queue.failMerge',
  positional: ['queue', 'ref', 'error'],
  hides: ['backoff'],
  negatable: { retryable: 'retrying cannot help' },
  options: failOptions,
  shape: failInput,
  ...held,
})

export const queueMergeVerbs = [
  updateRebaseMetadata,
  isFresh,
  returnToRebasing,
  beginMerge,
  completeMerge,
  failMerge,
]
