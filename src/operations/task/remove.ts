/** Dropping a task. There is no state for it: the task is gone, and its events say who dropped it and why. */
import * as z from 'zod'
import { assertUnneeded } from '../../domain/item-waiting.ts'
import { assertMayRemove } from '../../domain/task.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { ask, operation, reply } from '../operation.ts'
import { removal } from '../queue/control.ts'
import { dependentsOf, freed } from '../queue/dependents.ts'
import { assertVersion } from '../subject.ts'
import { ref, taskNeeds } from './view.ts'

const input = lazily(() => ({
  ref: ref(),
  reason: fields.operatorReason(),
  force: z.boolean().optional().describe('Do it even if somebody holds it; the holder loses it.'),
  dependents: z
    .enum(['release'])
    .optional()
    .describe('What to do with tasks that depend on it: release them.'),
  expectedVersion: fields.expectedVersion,
}))

export const removeTask = operation({
  name: 'tasks.removeTask',
  summary:
    'Drop a task; its events stay. Refused while it is held or others wait for it, unless told otherwise.',
  effect: 'write',
  needsReason: true,
  input,
  output: () => z.boolean(),
  needs: taskNeeds,
  decide({ item }, { reason, force, dependents, expectedVersion }, context) {
    if (!item) return reply(false)
    assertVersion(item, expectedVersion)
    assertMayRemove(item, { force }, context)
    return ask(dependentsOf(item.id), ({ waiting }) => {
      if (dependents !== 'release') {
        const some = waiting.slice(0, maxNamed).map((dependent) => dependent.item)
        assertUnneeded(
          item,
          some,
          'remove or change those first, or release them as well (`dependents: release`)',
        )
      }
      return {
        changes: [removal(item, context.agent, { reason }), ...freed(waiting, item.id, context)],
        result: true,
      }
    })
  },
})

/** How many of the waiting tasks a refusal names. */
const maxNamed = 10
