/** The audit log, in order: what changed, when, by whom, under which token. */

import { createHash } from 'node:crypto'
import * as z from 'zod'
import {
  eventKinds,
  foldEvent,
  type Image,
  replicaKey,
  type StoredEvent,
  subjects,
} from '../../domain/event.ts'
import { decideSealable, isAnyOld } from '../../domain/sealing.ts'
import { uniqueBy } from '../../domain/unique.ts'
import { InvalidError, NotFoundError } from '../../errors.ts'
import type { Change } from '../../port/decision.ts'
import type { Checkpoint, ImageRow } from '../../port/event.ts'
import * as fields from '../fields.ts'
import { ask, need, type OutputOf, operation, reply, view } from '../operation.ts'
import { beforeOf, isPast, past } from '../recovery/horizon.ts'

const eventView = view(() => ({
  seq: z.number(),
  at: z.number(),
  kind: z.enum(eventKinds),
  subject: z.enum(subjects),
  id: z.string(),
  queue: z.string().nullable(),
  version: z.number().nullable(),
  agent: z.string().nullable(),
  token: z.number().nullable(),
  change: z.record(z.string(), z.unknown()).nullable(),
  detail: z.record(z.string(), z.unknown()).nullable(),
}))
/** One record of the audit log. */
export type EventView = OutputOf<typeof eventView>

/**
 * Events in order, and the number to continue from: as `since`, or with `newest` as `before`. Null: no more events. A
 * read with a filter may find fewer than the limit, or none, long before it has searched everything.
 */
export interface EventPage {
  readonly events: EventView[]
  readonly next: number | null
}

/** Events that one read searches for those that pass a filter: a few milliseconds. */
const maxWalked = 10_000

export const list = operation({
  name: 'events.list',
  summary:
    'List events after a sequence number, or the newest ones: all of them, or those that pass the filters.',
  effect: 'read',
  input: () => ({
    since: fields
      .whole(0)
      .optional()
      .describe('Only events after this sequence number; 0 = from the oldest that is kept.'),
    before: fields.whole(0).optional().describe('Only events before this sequence number.'),
    subject: z.enum(subjects).optional().describe('Only events of this kind of thing.'),
    id: fields.text(300).optional().describe('Only events of the thing with this id; needs its kind.'),
    kinds: z
      .array(z.enum(eventKinds))
      .optional()
      .describe('Only events of these kinds, such as item.failed.'),
    queue: fields.queue.optional().describe('Only events of this queue and its items.'),
    newest: z.boolean().optional().describe('The newest ones, but still oldest first.'),
    limit: fields
      .whole(0, fields.maxPage)
      .optional()
      .describe(`How many at most, up to ${fields.maxPage}; default 100.`),
  }),
  output: () => z.object({ events: z.array(eventView()), next: z.number().nullable() }),
  needs({ since = 0, before, subject, id, kinds, queue, newest = false, limit = 100 }) {
    const of = subject === undefined || id === undefined ? null : { subject, id }
    const isSearch = kinds !== undefined || queue !== undefined || (subject !== undefined && of === null)
    const filter = { of, subject: subject ?? null, kinds: kinds ?? null, queue: queue ?? null }
    const range = { since, before: before ?? null, limit, newest, window: maxWalked }
    return {
      page: isSearch ? null : { select: 'events', since, before, limit, of, newest },
      found: isSearch ? { select: 'eventsAbout', ...filter, ...range } : null,
      // Read after the events, so that a removal in between is noticed.
      checkpoint: { select: 'checkpoint' },
    }
  },
  decide({ page, found, checkpoint }, { since = 0, subject, id, newest = false, limit = 100 }) {
    if (id !== undefined && subject === undefined) throw idAlone(id)
    if (checkpoint !== null && since > 0 && since < checkpoint.seq) throw removedEvents(since, checkpoint.seq)
    const events = (page ?? found?.events ?? []) as EventView[]
    const last = newest ? events[0] : events.at(-1)
    const beyond = events.length === limit ? (last?.seq ?? null) : null
    return reply({ events, next: found === null ? beyond : found.next })
  },
})

/** Ids are unique only among things of one kind. */
function idAlone(id: string): InvalidError {
  return new InvalidError({
    what: `id "${id}" is given without the kind of thing it belongs to`,
    next: `give \`subject\` too: one of ${subjects.join(', ')}`,
  })
}

/** A reader that has seen some events must not continue after a gap without knowing it. */
function removedEvents(since: number, checkpoint: number): NotFoundError {
  return new NotFoundError({
    what: `the events after ${since} are no longer kept: those up to ${checkpoint} were removed`,
    next: `begin with what the removed ones left behind (\`holdfast events images\`) and go on after ${checkpoint}`,
    facts: { since, checkpoint },
  })
}

type ImageKey = Pick<ImageRow, 'subject' | 'id'>

/** Events that one transaction seals: keeps it under 20 ms. */
const maxSealed = 200

export const seal = operation({
  name: 'events.seal',
  summary:
    'Remove the oldest events, up to a sequence number and older than an age; a replay then starts from images.',
  effect: 'admin',
  class: 'internal',
  input: () => ({
    past: past(),
    through: fields.whole(0).optional(),
    dryRun: z.boolean().optional(),
  }),
  output: () => z.object({ removed: z.number(), through: z.number(), more: z.boolean() }),
  needs: () => ({
    // One more than is sealed: the newest event always stays, so that the sequence continues from it.
    events: {
      select: 'events',
      since: 0,
      limit: maxSealed + 1,
      of: null,
      newest: false,
    },
    checkpoint: { select: 'checkpoint' },
  }),
  decide({ events, checkpoint }, { past, through = Number.MAX_SAFE_INTEGER, dryRun }, context) {
    const oldest = events.slice(0, Math.min(events.length - 1, maxSealed)).filter(({ seq }) => seq <= through)
    const dates = { latestAt: checkpoint?.at ?? 0, before: beforeOf(past), wall: context.wall }
    const { count, end } = decideSealable(events, dates)
    const range = end === 'undated' ? oldest : oldest.slice(0, count)
    const last = range.at(-1)
    const nothing = reply({ removed: 0, through: checkpoint?.seq ?? 0, more: false })
    if (!last || !isPast(past, context)) return nothing
    const needs = need({
      images: dryRun ? null : { select: 'images', keys: keysOf(range) },
      samples: end === 'undated' ? { select: 'eventSamples', after: last.seq } : null,
    })
    return ask(needs, ({ images, samples }) => {
      if (samples !== null && !isAnyOld(samples, dates)) return nothing
      const more = end !== 'young' && events.length > maxSealed
      const result = { removed: range.length, through: last.seq, more }
      if (images === null) return reply(result)
      const next = {
        name: 'events',
        seq: last.seq,
        at: decideSealable(range, dates).latestAt,
        digest: chainedDigest(checkpoint, range),
        version: (checkpoint?.version ?? 0) + 1,
      } as const
      const changes: Change[] = [
        { table: 'sealedEvents', before: { through: last.seq, count: range.length }, after: null },
        { table: 'checkpoint', before: checkpoint, after: next },
        ...foldedImages(images, range),
      ]
      return { changes, result }
    })
  },
})

function keysOf(events: readonly StoredEvent[]): ImageKey[] {
  return uniqueBy(events, replicaKey).map(({ subject, id }) => ({ subject, id }))
}

function chainedDigest(checkpoint: Checkpoint | null, range: readonly StoredEvent[]): string {
  return createHash('sha256')
    .update(checkpoint?.digest ?? '')
    .update(JSON.stringify(range))
    .digest('hex')
}

function foldedImages(images: readonly ImageRow[], range: readonly StoredEvent[]): Change[] {
  const before = new Map(images.map((row) => [replicaKey(row), row]))
  const after = new Map<string, Image | null>(images.map((row) => [replicaKey(row), row.image]))
  for (const event of range)
    after.set(replicaKey(event), foldEvent(after.get(replicaKey(event)) ?? null, event))
  return keysOf(range).flatMap((key): Change[] => {
    const image = after.get(replicaKey(key)) ?? null
    const old = before.get(replicaKey(key)) ?? null
    if (old === null && image === null) return []
    return [{ table: 'image', before: old, after: image === null ? null : { ...key, image } }]
  })
}

export const images = operation({
  name: 'events.images',
  summary: 'List the state at which the kept events begin; a replay starts from it.',
  effect: 'read',
  input: () => ({
    after: z
      .strictObject({ subject: fields.text(100), id: fields.text(300) })
      .optional()
      .describe('The last one of the previous page.'),
    limit: fields.limit,
  }),
  output: () =>
    z.object({
      seq: z.number(),
      digest: z.string().nullable(),
      images: z.array(
        z.object({ subject: z.string(), id: z.string(), image: z.record(z.string(), z.unknown()) }),
      ),
    }),
  needs: ({ after, limit }) => ({
    checkpoint: { select: 'checkpoint' },
    images: { select: 'imagePage', after: after ?? null, limit: limit ?? 100 },
  }),
  decide: ({ checkpoint, images }) =>
    reply({
      seq: checkpoint?.seq ?? 0,
      digest: checkpoint?.digest ?? null,
      images: images.map((row) => ({ ...row, image: { ...row.image } })),
    }),
})
