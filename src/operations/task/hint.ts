/** Hints about tasks, in one read. */
import * as z from 'zod'
import { readWords, taskQueue } from '../../domain/task.ts'
import { criticalPath, type Hinted, overlaps, waves } from '../../domain/task-hint.ts'
import { type OutputOf, operation, reply, view } from '../operation.ts'

/** Nobody plans with more open tasks than this. */
const maxHinted = 2000

const hintsView = view(() => ({
  overlaps: z.array(
    z.object({
      tasks: z.tuple([z.string(), z.string()]),
      because: z.enum(['dependency', 'paths', 'labels']),
      shared: z.array(z.string()),
    }),
  ),
  waves: z.array(z.array(z.string())).describe('By key, or by id where a task has none.'),
  criticalPath: z.array(z.string()),
  more: z.boolean().describe('True when only the first 2,000 open tasks were looked at.'),
}))
/** Which tasks overlap, which can run in parallel, and the longest chain. */
export type TaskHints = OutputOf<typeof hintsView>

export const hints = operation({
  name: 'tasks.hints',
  summary: 'Show which tasks overlap, which can run together, and the critical path. Advisory only.',
  effect: 'read',
  input: () => ({}),
  output: hintsView,
  needs: () => ({
    page: {
      select: 'items',
      queue: taskQueue,
      states: ['todo', 'in_progress', 'review'],
      lines: ['ready', 'suspect', 'waiting', 'held'],
      failedOnly: false,
      quarantinedOnly: false,
      freedBy: null,
      quarantined: null,
      filter: null,
      limit: maxHinted,
      after: null,
    },
  }),
  decide({ page }) {
    // The names people use. Each is accepted wherever a task is named.
    const names = new Map(page.rows.map(({ id, key }) => [id, key ?? id]))
    const nameOf = (id: string) => names.get(id) as string
    const tasks = page.rows.map((item): Hinted => {
      const { labels, paths } = readWords({ ...item, payload: null })
      const inProgress = item.phase === 'held'
      return { id: item.id, inProgress, labels, paths, waitingFor: item.waitingFor }
    })
    return reply({
      overlaps: overlaps(tasks).map(({ tasks: [left, right], because, shared }) => ({
        tasks: [nameOf(left), nameOf(right)] as [string, string],
        because,
        shared: [...shared],
      })),
      waves: waves(tasks).map((wave) => wave.map(nameOf)),
      criticalPath: criticalPath(tasks).map(nameOf),
      more: page.next !== null,
    })
  },
})
