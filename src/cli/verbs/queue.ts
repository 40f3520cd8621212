/** `holdfast queue`. */
import type { Verb } from '../verb.ts'
import { queueControlVerbs } from './queue-control.ts'
import { queueLockVerbs } from './queue-lock.ts'
import { queueLookVerbs } from './queue-look.ts'
import { queueMergeVerbs } from './queue-merge.ts'
import { queueWorkVerbs } from './queue-work.ts'

const under = (section: string, verbs: readonly Verb[]) => verbs.map((each) => ({ ...each, section }))

export const verbs = [
  ...under('Work:', queueWorkVerbs),
  ...under('Look:', queueLookVerbs),
  ...under('Operate:', queueControlVerbs),
  ...under('Processing lock:', queueLockVerbs),
  ...under('Merge:', queueMergeVerbs),
]
