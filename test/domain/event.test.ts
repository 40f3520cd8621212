import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  eventKinds,
  type Replica,
  renewalFields,
  replay,
  type StoredEvent,
  subjects,
} from '../../src/domain/event.ts'
import { renew } from '../../src/domain/lease.ts'
import { aLock, at, itemIn, job } from './samples.ts'

function anEvent(fields: Partial<StoredEvent>): StoredEvent {
  return {
    seq: 1,
    at: at.wall,
    kind: 'item.moved',
    subject: 'item',
    id: 'i1',
    queue: 'q',
    version: 1,
    agent: 'ada',
    token: null,
    change: null,
    detail: null,
    ...fields,
  }
}

function replayAll(...events: Partial<StoredEvent>[]): Replica {
  const replica: Replica = new Map()
  for (const event of events) replay(replica, anEvent(event))
  return replica
}

/** What the store writes down: the fields of a row that are new. */
function differenceOf(before: Record<string, unknown>, after: Record<string, unknown>) {
  return Object.fromEntries(Object.entries(after).filter(([field, value]) => before[field] !== value))
}

describe('replaying events', () => {
  test('a later event overwrites the fields it names and keeps the others', () => {
    const replica = replayAll(
      { kind: 'item.created', change: { state: 'pending', priority: 5 } },
      { kind: 'item.moved', change: { state: 'cancelled', error: null } },
    )

    expect(replica.get('item:i1')).toEqual({ state: 'cancelled', priority: 5, error: null })
  })

  test('a remark that changed nothing leaves no trace in the replica', () => {
    const replica = replayAll(
      { kind: 'lock.refused', subject: 'lock', id: 'press', version: null },
      { kind: 'item.created', change: { state: 'pending' } },
      { kind: 'item.refused', version: null },
    )

    expect([...replica]).toEqual([['item:i1', { state: 'pending' }]])
  })

  test.each([
    ['item.removed', 'item'],
    ['lock.released', 'lock'],
    ['lock.expired', 'lock'],
    ['lock.forced', 'lock'],
    ['instance.removed', 'instance'],
    ['state.deleted', 'state'],
  ] as const)('%s takes the thing out of the replica, and only that thing', (kind, subject) => {
    const replica = replayAll(
      { subject, id: 'gone', kind: 'item.created', change: { version: 1 } },
      { subject, id: 'kept', kind: 'item.created', change: { version: 1 } },
      { subject, id: 'gone', kind, change: null },
    )

    expect([...replica.keys()]).toEqual([`${subject}:kept`])
  })

  test('a lock taken by force stays during its delay [L14]', () => {
    const replica = replayAll(
      { subject: 'lock', id: 'press', kind: 'lock.acquired', change: { agent: 'ada', delayedSince: null } },
      { subject: 'lock', id: 'press', kind: 'lock.forced', change: { delayedSince: 7 } },
    )

    expect(replica.get('lock:press')).toEqual({ agent: 'ada', delayedSince: 7 })
  })

  test('a thing that comes back after its removal inherits nothing', () => {
    const replica = replayAll(
      { subject: 'lock', id: 'press', kind: 'lock.acquired', change: { agent: 'ada', reason: 'ink' } },
      { subject: 'lock', id: 'press', kind: 'lock.released' },
      { subject: 'lock', id: 'press', kind: 'lock.acquired', change: { agent: 'bob' } },
    )

    expect(replica.get('lock:press')).toEqual({ agent: 'bob' })
  })

  test('things of different kinds never mix, even with equal ids', () => {
    const replica = replayAll(
      { subject: 'queue', id: 'press', kind: 'queue.created', change: { slots: 2 } },
      { subject: 'lock', id: 'press', kind: 'lock.acquired', change: { slot: 0 } },
    )

    expect([...replica]).toEqual([
      ['queue:press', { slots: 2 }],
      ['lock:press', { slot: 0 }],
    ])
  })

  test('recording only what changed is enough to rebuild any row in its latest form', () => {
    const aRow = fc.record({ state: fc.string(), count: fc.nat(3), note: fc.option(fc.string()) })
    fc.assert(
      fc.property(fc.array(aRow, { minLength: 1 }), (forms) => {
        const changes = forms.map((form, index) => differenceOf(forms[index - 1] ?? {}, form))

        const replica = replayAll(...changes.map((change) => ({ change })))

        expect(replica.get('item:i1')).toEqual(forms.at(-1))
      }),
    )
  })

  test.each([
    ['item', itemIn(job, 'running')],
    ['lock', aLock()],
  ])('renewing a held %s changes nothing but what a replay does not promise', (_, row) => {
    const renewed = renew(row, at.now + 5_000, 60_000)

    const changed = Object.keys(differenceOf({ ...row }, { ...renewed }))

    expect(changed.length).toBeGreaterThan(0)
    expect(changed.filter((field) => !renewalFields.has(field))).toEqual([])
  })
})

describe('kinds of events', () => {
  test('each is named once, after the thing it is about [Q25]', () => {
    const named = eventKinds.map((kind) => kind.split('.')[0])

    expect(new Set(eventKinds).size).toBe(eventKinds.length)
    expect(new Set(named)).toEqual(new Set(subjects))
  })
})
