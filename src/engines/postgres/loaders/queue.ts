/** Queues with the definitions of their workflows. */
import type { Queue } from '../../../domain/queue.ts'
import type { Workflow } from '../../../domain/workflow.ts'
import type { DefinedQueue, WorkflowRow } from '../../../port/queue.ts'
import type { Query, Row } from '../plan.ts'
import { decodeFirst, Parameters, query } from '../rows.ts'
import { columnsOf, decode, tables, youngerAt } from '../tables.ts'
import type { Loaders } from './loader.ts'

const queueYoungerAt = youngerAt(tables.queue)
const selectQueue = `select ${columnsOf(tables.queue)}, w.definition
from holdfast.queue t
left join holdfast.workflow w on w.namespace = t.namespace and w.name = t.workflow
where t.namespace = $1`

/** A queue within a longer row, given where its columns begin and where the definition of its workflow is. */
export function definedQueueAt(row: Row, queueAt: number, definitionAt: number): DefinedQueue {
  const definition = row[definitionAt] as string | null
  return {
    queue: decode<Queue>(tables.queue, row, queueAt),
    definition: definition === null ? null : (JSON.parse(definition) as Workflow),
  }
}

const selectNamedQueue = `${selectQueue} and t.name = $2`

function definedQueue(row: Row): DefinedQueue {
  return definedQueueAt(row, 0, queueYoungerAt + 1)
}

export const queueLoaders = {
  queue: ({ name }, scope) => ({
    sharedNames: [`queue:${name}`],
    queries: [
      {
        text: selectNamedQueue,
        values: [scope.namespace, name],
        youngerAt: queueYoungerAt,
      },
    ],
    read: ([rows]) => (rows?.[0] ? definedQueue(rows[0]) : null),
  }),

  queues({ names }, scope) {
    const parameters = new Parameters(scope)
    const some = names === null ? '' : `and t.name = any(${parameters.add(names)})`
    const text = `${selectQueue} ${some}\norder by t.name\nlimit 10000`
    const asked: Query = { text, values: parameters.values, youngerAt: queueYoungerAt }
    return {
      sharedNames: (names ?? []).map((name) => `queue:${name}`),
      queries: names?.length === 0 ? [] : [asked],
      searched: names === null ? ['queue'] : [],
      read: ([rows]) => (rows ?? []).map(definedQueue),
    }
  },

  workflow({ name }, scope) {
    const parameters = new Parameters(scope)
    return {
      names: [`workflow:${name}`],
      queries: [query(scope, tables.workflow, 'wait', `and t.name = ${parameters.add(name)}`, parameters)],
      read: ([rows]) => decodeFirst<WorkflowRow>(tables.workflow, rows),
    }
  },
} satisfies Partial<Loaders>
