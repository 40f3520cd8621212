/** docs/reference/events.md */
import { eventMeanings, subjects } from '../../src/domain/event.ts'
import { code, heading, table } from './markdown.ts'

/** What the id of an event names. */
const ids: Readonly<Record<(typeof subjects)[number], string>> = {
  workflow: 'a workflow, by name',
  queue: 'a queue, by name',
  item: 'an item or task',
  lock: 'a slot of a named lock, or a reservation of paths',
  waiter: 'a place in the line for a lock',
  run: 'a run, by name',
  outcome: 'one item of a run',
  instance: 'a process that has the store open',
  state: 'a document, by key',
  message: 'a message',
  delivery: 'one recipient of a message',
  recipient: 'somebody who can get messages, by name',
  store: 'the store itself',
}

export function eventsPage(): string {
  const kinds = Object.entries(eventMeanings)
  return [
    ...heading('Events', '`src/domain/event.ts`'),
    'Every change writes an event in the same transaction. `hf.events()`, `holdfast events list` and `holdfast events follow` read them in order. All of them can filter by kind and queue, `hf.events()` and `events list` also by subject and id. An event has its number (`seq`), its time, the agent that acted, the fields that changed (`change`) and, where it helps, the circumstances (`detail`).',
    ...subjects.flatMap((subject) => [
      '',
      `## ${subject}`,
      '',
      `The id names ${ids[subject]}.`,
      '',
      ...table(
        ['kind', 'what happened'],
        kinds
          .filter(([kind]) => kind.startsWith(`${subject}.`))
          .map(([kind, meaning]) => [code(kind), meaning]),
      ),
    ]),
    '',
  ].join('\n')
}
