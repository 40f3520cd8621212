/** Queues with the definitions of their workflows. */
import type { Queue } from '../../../domain/queue.ts'
import type { Workflow } from '../../../domain/workflow.ts'
import type { DefinedQueue, WorkflowRow } from '../../../port/queue.ts'
import { inList, packed, select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectQueue = `select ${packed(tables.queue)}, workflow.definition
from queue
left join workflow on workflow.namespace = queue.namespace and workflow.name = queue.workflow`

const selectOneQueue = `${selectQueue}\nwhere queue.namespace = ? and queue.name = ?`

export function definedQueue(row: readonly unknown[]): DefinedQueue {
  const definition = row[1] as string | null
  return {
    queue: decode<Queue>(tables.queue, row),
    definition: definition === null ? null : (JSON.parse(definition) as Workflow),
  }
}

export const queueLoaders = {
  queue(source, { name }) {
    const known = source.known.queues.get(name)
    if (known !== undefined) return known
    const row = source.connection.get(selectOneQueue, source.namespace, name)
    const found = row ? definedQueue(row) : null
    source.known.rememberQueue(name, found)
    return found
  },

  queues(source, { names }) {
    const some = names === null ? '' : 'and queue.name in (select value from json_each(?))'
    const list = names === null ? [] : [inList(names)]
    return source.connection
      .all(`${selectQueue}\nwhere queue.namespace = ? ${some}\nlimit 10000`, source.namespace, ...list)
      .map(definedQueue)
  },

  workflow(source, { name }) {
    const row = source.connection.get(
      `${select(tables.workflow)}\nwhere namespace = ? and name = ?`,
      source.namespace,
      name,
    )
    return row ? decode<WorkflowRow>(tables.workflow, row) : null
  },
} satisfies Partial<Loaders>
