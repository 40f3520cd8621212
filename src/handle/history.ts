/** Every event of one thing that is kept, oldest first, read page by page. */
import type { EventPage, EventView } from '../operations/event/event.ts'
import type { InputOf } from '../operations/table.ts'
import type { Session } from '../runtime/session/session.ts'

const pageSize = 1000

export async function historyOf(
  session: Session,
  subject: NonNullable<InputOf<'events.list'>['subject']>,
  id: string,
): Promise<EventView[]> {
  const all: EventView[] = []
  for (let since: number | null = 0; since !== null; ) {
    const page: EventPage = await session.call('events.list', { subject, id, since, limit: pageSize })
    all.push(...page.events)
    since = page.next
  }
  return all
}
