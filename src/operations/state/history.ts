/** Past versions of a document: its events, newest first, for as long as events are kept. */
import * as z from 'zod'
import type { StoredEvent } from '../../domain/event.ts'
import * as fields from '../fields.ts'
import { type OutputOf, operation, reply, view } from '../operation.ts'

const pastView = view(() => ({
  /** Sequence number of the event that recorded it. */
  seq: z.number(),
  /** The version that was saved, or the one that was deleted. */
  version: z.number(),
  value: z.unknown(),
  deleted: z.boolean(),
  at: z.number(),
  by: z.string().nullable(),
}))
const historyView = view(() => ({ entries: z.array(pastView()), next: z.number().nullable() }))
/** A page of a document's past versions. */
export type StateHistory = OutputOf<typeof historyView>

const pageDefault = 50

export const history = operation({
  name: 'state.history',
  summary: 'List the former values of a document, newest first, as far back as events are kept.',
  effect: 'read',
  input: () => ({
    key: fields.name.describe('Key of the document.'),
    limit: fields.limit,
    before: z.int().min(0).optional().describe('`next` of the previous page.'),
  }),
  output: historyView,
  needs: ({ key, limit, before }) => ({
    events: {
      select: 'events',
      of: { subject: 'state', id: key },
      since: 0,
      newest: true,
      limit: (limit ?? pageDefault) + 1,
      before,
    },
  }),
  decide({ events }, { limit = pageDefault }) {
    const entries = events.toReversed().slice(0, limit).map(viewPast)
    return reply({ entries, next: events.length > limit ? (entries.at(-1)?.seq ?? null) : null })
  },
})

function viewPast({ seq, kind, version, change, detail, at, agent }: StoredEvent) {
  const deleted = kind === 'state.deleted'
  return {
    seq,
    version: version ?? Number(detail?.version),
    value: deleted ? null : JSON.parse(String(change?.value ?? detail?.value)),
    deleted,
    at,
    by: agent,
  }
}
