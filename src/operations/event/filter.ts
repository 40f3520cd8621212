/** Which events a reader wants. */
import { eventKinds, subjects } from '../../domain/event.ts'
import { assertName, nearestName } from '../../domain/name.ts'
import { shown } from '../../domain/text.ts'
import { InvalidError } from '../../errors.ts'
import type { EventView } from './event.ts'

/** Which events are wanted; fields you leave out let every event pass. */
export interface EventFilter {
  /** Only events of this kind of thing, such as `item` or `lock`. */
  readonly subject?: EventView['subject'] | undefined
  /** Only events of the thing with this id; needs its `subject`. */
  readonly id?: string | undefined
  /** Only events of these kinds, such as `item.failed`. */
  readonly kinds?: readonly EventView['kind'][] | undefined
  /** Only events of this queue and its items. */
  readonly queue?: string | undefined
}

export function isWanted(event: EventView, { subject, id, kinds, queue }: EventFilter): boolean {
  if (subject !== undefined && event.subject !== subject) return false
  if (id !== undefined && event.id !== id) return false
  if (kinds !== undefined && !kinds.includes(event.kind)) return false
  return queue === undefined || event.queue === queue || (event.subject === 'queue' && event.id === queue)
}

/** A misspelt filter would wait forever for events that never come. */
export function assertFilter({ subject, id, kinds, queue }: EventFilter): void {
  if (id !== undefined && subject === undefined) {
    throw new InvalidError({
      what: `events: id ${shown(id)} is given without the kind of thing it belongs to`,
      next: `give \`subject\` too: one of ${subjects.join(', ')}`,
    })
  }
  if (subject !== undefined) assertOneOf('subject', subject, subjects)
  if (queue !== undefined) assertName('queue', queue)
  if (kinds === undefined) return
  if (!Array.isArray(kinds)) {
    throw new InvalidError({
      what: `events: kinds: ${shown(kinds)} is not a list`,
      next: 'give an array of kinds',
    })
  }
  for (const kind of kinds) assertOneOf('kinds', kind, eventKinds)
}

function assertOneOf(field: string, value: unknown, known: readonly string[]): void {
  if (typeof value === 'string' && known.includes(value)) return
  const nearest = nearestName(String(value), known)
  throw new InvalidError({
    what: `events: ${field}: there is no ${shown(value)}`,
    next: nearest ? `did you mean "${nearest}"?` : `give one of ${known.join(', ')}`,
  })
}
