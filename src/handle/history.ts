/** Every event of one thing that is kept, oldest first, read page by page. */
import type { EventView } from '../operations/event/event.ts'
import type { InputOf } from '../operations/table.ts'
import { allPages } from '../runtime/session/pages.ts'
import type { Session } from '../runtime/session/session.ts'

const limit = 1000

export async function historyOf(
  session: Session,
  subject: NonNullable<InputOf<'events.list'>['subject']>,
  id: string,
): Promise<EventView[]> {
  const pages = await allPages((since: number | undefined = 0) =>
    session.call('events.list', { subject, id, since, limit }),
  )
  return pages.flatMap(({ events }) => events)
}
