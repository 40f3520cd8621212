/** Where the options of the library's methods are written down, and the operations whose schemas say what they mean. */
import { readFileSync } from 'node:fs'
import * as z from 'zod'
import { operations } from '../../src/operations/table.ts'

/** The interface, the file it is in, and the operations that take its fields. */
export const optionInterfaces: readonly (readonly [
  name: string,
  file: string,
  operations: readonly string[],
])[] = [
  ['QueueOptions', 'queue/queue-options', ['queue.define']],
  ['ClaimOptions', 'call-options', ['queue.next']],
  ['TokenOptions', 'call-options', ['queue.next']],
  ['AddOptions', 'queue/queue-options', ['queue.add']],
  ['SubmitOptions', 'queue/queue-options', ['queue.submit']],
  ['FailOptions', 'queue/queue-options', ['queue.fail']],
  ['OperatorOptions', 'queue/queue-options', ['queue.retry']],
  ['ListOptions', 'queue/queue-options', ['queue.list']],
  ['TaskFields', 'tasks/task-options', ['tasks.addTask']],
  ['AddTaskOptions', 'tasks/task-options', ['tasks.addTask']],
  ['TaskChanges', 'tasks/task-options', ['tasks.updateTask']],
  ['UpdateTaskOptions', 'tasks/task-options', ['tasks.updateTask']],
  ['RemoveTaskOptions', 'tasks/task-options', ['tasks.removeTask']],
  ['TaskFilter', 'tasks/task-options', ['tasks.listTasks']],
  ['ListTasksOptions', 'tasks/task-options', ['tasks.listTasks']],
  ['ClaimTaskOptions', 'tasks/task-options', ['tasks.claimTaskForAgent']],
  ['ClaimNextOptions', 'tasks/task-options', ['tasks.claimNext']],
  ['AcquireOptions', 'locks/lock-options', ['locks.acquireLock']],
  ['ReserveOptions', 'locks/lock-options', ['locks.reserve']],
  ['StartOptions', 'runs', ['runs.start']],
  ['RecordOptions', 'runs', ['runs.record']],
  ['SendOptions', 'messages', ['messages.sendWithAck']],
  ['NackOptions', 'messages', ['messages.nack']],
  ['MessagePageOptions', 'messages', ['messages.inbox']],
  ['RegisterOptions', 'messages', ['messages.register']],
  ['StateSetOptions', 'state', ['state.set']],
]

export interface Option {
  readonly name: string
  /** The comment above it; null where there is none. */
  readonly sentence: string | null
}

/** The options of an interface, each with its comment. */
export function optionsOf(name: string, file: string): Option[] {
  const text = readFileSync(`src/handle/${file}.ts`, 'utf8')
  const body = new RegExp(`interface ${name}\\b[^{]*\\{\\n([\\s\\S]*?)^\\}`, 'm').exec(text)?.[1]
  if (body === undefined) throw new Error(`${file}.ts has no interface ${name}`)
  return [...body.matchAll(/(?:^ {2}\/\*\* (.*) \*\/\n)?^ {2}readonly (\w+)\??:/gm)].map(
    ([, sentence, option]) => ({
      name: option as string,
      sentence: sentence ?? null,
    }),
  )
}

/** What the schemas of these operations say of a field; null where they do not know it or say nothing. */
export function sentenceOf(field: string, names: readonly string[]): string | null {
  for (const name of names) {
    const { input } = operations.get(name) ?? {}
    if (!(input instanceof z.ZodObject)) throw new Error(`there is no operation ${name}`)
    const { description } = (input.shape[field] ?? {}) as { description?: string }
    if (description !== undefined) return description
  }
  return null
}
