/** Verbs of the merge workflow. */
import { verb } from '../verb.ts'
import { failing } from './queue-work.ts'

export const queueMergeVerbs = [
  verb({ operation: 'queue.updateRebaseMetadata', positional: ['queue', 'ref'] }),
  verb({ noun: 'fresh', operation: 'queue.isFresh', says: { yes: 'fresh', no: 'not fresh' } }),
  verb({ operation: 'queue.returnToRebasing' }),
  verb({ operation: 'queue.beginMerge' }),
  verb({ operation: 'queue.completeMerge', completes: true }),
  verb({ operation: 'queue.failMerge', ...failing }),
]
