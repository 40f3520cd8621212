/** The audit, in order: what changed, when, by whom, under which token. */
import * as z from 'zod'
import { eventKinds } from '../domain/event.ts'
import * as fields from './fields.ts'
import { operation } from './operation.ts'

const eventView = z.object({
  seq: z.number(),
  at: z.number(),
  kind: z.enum(eventKinds),
  subject: z.enum(['workflow', 'queue', 'item', 'lock', 'instance']),
  id: z.string(),
  queue: z.string().nullable(),
  version: z.number().nullable(),
  agent: z.string().nullable(),
  token: z.number().nullable(),
  change: z.record(z.string(), z.unknown()).nullable(),
  detail: z.record(z.string(), z.unknown()).nullable(),
})
/** One record of the audit. */
export type EventView = z.output<typeof eventView>

export const list = operation({
  name: 'events.list',
  summary: 'Events after a sequence number, or the newest ones, of everything or of one thing.',
  effect: 'read',
  input: z.strictObject({
    since: z.int().min(0).optional().describe('Only events after this sequence number.'),
    subject: z.enum(['workflow', 'queue', 'item', 'lock', 'instance']).optional(),
    id: z.string().max(300).optional(),
    newest: z.boolean().optional().describe('The last ones, still oldest first.'),
    limit: z.int().min(0).max(fields.batchMax).optional(),
  }),
  output: z.array(eventView),
  needs: (input) => ({
    events: {
      select: 'events',
      since: input.since ?? 0,
      limit: input.limit ?? 100,
      subject: input.subject ?? null,
      id: input.id ?? null,
      newest: input.newest ?? false,
    } as const,
  }),
  decide: ({ events }) => ({ changes: [], result: events as EventView[] }),
})
