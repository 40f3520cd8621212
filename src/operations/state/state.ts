/** Versioned documents: get, set, delete, list, history. */
import * as z from 'zod'
import type { StoredEvent } from '../../domain/event.ts'
import { maxNameLength } from '../../domain/name.ts'
import {
  assertStateVersion,
  raiseFloor,
  type State,
  type StateFloor,
  type StateSummary,
  saveState,
} from '../../domain/state.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Change, Decision } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { change, need, type OutputOf, operation, reply, view } from '../operation.ts'

const key = lazily(() => fields.name.describe('Key of the document.'))
const value = lazily(() => fields.asJsonText().describe('Any JSON value.'))

export const savedView = view(() => ({ version: z.number(), updatedAt: z.number(), updatedBy: z.string() }))
/** A document without its value. */
export type SavedView = OutputOf<typeof savedView>

export const stateView = lazily(() => savedView().extend({ value: z.unknown() }))
/** A document with its value. */
export type StateView = OutputOf<typeof stateView>

function viewSaved({ version, updatedAt, updatedBy }: Omit<StateSummary, 'key'>): SavedView {
  return { version, updatedAt, updatedBy }
}

export function viewState(state: State): StateView {
  return { value: JSON.parse(state.value), ...viewSaved(state) }
}

export const stateNeeds = ({ key }: { key: string }) => need({ state: { select: 'state', key } })
export const writeNeeds = (input: { key: string }) =>
  need({ ...stateNeeds(input), floor: { select: 'stateFloor' } })

export const get = operation({
  name: 'state.get',
  summary: 'Get a document with its version; null when there is none.',
  effect: 'read',
  input: () => ({ key: key() }),
  output: () => stateView().nullable(),
  needs: stateNeeds,
  decide: ({ state }) => reply(state && viewState(state)),
})

export const version = operation({
  name: 'state.version',
  summary: 'Get the version of a document; 0 when there is none.',
  effect: 'read',
  class: 'client',
  input: () => ({ key: key() }),
  output: () => z.number(),
  needs: (input) => ({ version: { select: 'stateVersion', key: input.key } }),
  decide: (rows) => reply(rows.version),
})

const expectedVersion = lazily(() =>
  fields.whole(0).optional().describe('Refuse unless it is at this version; 0 = new.'),
)

export const setInput = lazily(() => ({
  key: key(),
  value: value(),
  expectedVersion: expectedVersion(),
}))

export const set = operation({
  name: 'state.set',
  summary: 'Set a document and raise its version. Refused unless it is at the expected version.',
  effect: 'write',
  input: setInput,
  output: savedView,
  needs: writeNeeds,
  decide: saved,
})

/** `update`: id of the update that saves, if there is one. */
export function saved(
  { state, floor }: { readonly state: State | null; readonly floor: StateFloor | null },
  input: { key: string; value: string; expectedVersion?: number | undefined; update?: string },
  { agent, wall }: Context,
): Decision<SavedView> {
  assertStateVersion(input.key, state, input.expectedVersion)
  const { key: name, value: text, update = null } = input
  const after = saveState(state, floor, { key: name, value: text, agent, wall, update })
  // An event contains only what changed, but the history needs the value of every version.
  const detail = state?.value === text ? { detail: { value: text } } : {}
  return {
    changes: [{ table: 'state', before: state, after, event: { kind: 'state.set', agent, ...detail } }],
    result: viewSaved(after),
  }
}

export const remove = operation({
  name: 'state.delete',
  summary: 'Delete a document, if there is one. Its history stays, and versions keep growing.',
  effect: 'write',
  input: () => ({
    key: key(),
    expectedVersion: expectedVersion(),
  }),
  output: () => z.boolean(),
  needs: writeNeeds,
  decide({ state, floor }, input, { agent }) {
    assertStateVersion(input.key, state, input.expectedVersion)
    if (state === null) return reply(false)
    const raised = raiseFloor(floor, state)
    const detail = { version: state.version }
    const changes: Change[] = [
      change('state', state, null, 'state.deleted', { agent }, detail),
      ...(raised ? [{ table: 'stateFloor', before: floor, after: raised } as const] : []),
    ]
    return { changes, result: true }
  },
})

const statePage = view(() => ({
  states: z.array(savedView().extend({ key: z.string() })),
  next: z.string().nullable(),
}))
/** A page of keys, each with its version. */
export type StatePage = OutputOf<typeof statePage>

export const list = operation({
  name: 'state.list',
  summary: 'List keys with a prefix, with their versions but without values.',
  effect: 'read',
  input: () => ({
    prefix: fields.text(maxNameLength).optional().describe('Only keys with this prefix.'),
    limit: fields.limit,
    after: fields.after,
  }),
  output: statePage,
  needs: ({ prefix, ...page }) => ({
    page: { select: 'states', prefix: prefix ?? '', ...fields.paging(page) },
  }),
  decide: ({ page }) =>
    reply({
      states: page.rows.map((row) => ({ key: row.key, ...viewSaved(row) })),
      next: page.next,
    }),
})

/** A past version of a document: one of its events, for as long as events are kept. */
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
    before: fields.whole(0).optional().describe('`next` of the previous page.'),
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
