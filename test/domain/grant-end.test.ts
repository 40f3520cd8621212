import { describe, expect, test } from 'vitest'
import { endByHolder } from '../../src/domain/crash-pattern.ts'
import type { StoredEvent } from '../../src/domain/event.ts'

const grant = { agent: 'ada', token: 7 }

function event(facts: Partial<StoredEvent>): StoredEvent {
  const place = { subject: 'item', id: 'i', queue: 'q' } as const
  return {
    seq: 1,
    at: 1,
    kind: 'item.moved',
    ...place,
    version: 2,
    ...grant,
    change: null,
    detail: null,
    ...facts,
  }
}

const claimed = event({ kind: 'item.claimed', change: { agent: 'ada', token: 7 } })
const freed = { agent: null }

describe('a grant was ended by its holder [S5c-30]', () => {
  test.each([
    ['a completion', event({ kind: 'item.completed', change: freed })],
    ['a failure', event({ kind: 'item.failed', change: freed })],
    ['a release', event({ kind: 'item.released', change: freed })],
    ['a move to where nobody holds it', event({ kind: 'item.moved', change: freed })],
    ['the release of a lock', event({ kind: 'lock.released', subject: 'lock', version: null })],
  ])('by %s', (_, end) => {
    expect(endByHolder([claimed, end], grant)).toBe(end)
  })

  test('whatever happened to it afterwards', () => {
    const end = event({ kind: 'item.released', change: freed })
    const next = event({ kind: 'item.claimed', agent: 'bob', token: 8, change: { agent: 'bob', token: 8 } })

    expect(endByHolder([claimed, end, next], grant)).toBe(end)
  })
})

describe('a grant was not ended by its holder [S5c-30]', () => {
  test.each([
    ['while it runs', []],
    ['by what is done under it', [event({ kind: 'item.moved', change: { state: 'testing' } })]],
    ['by a reclaim', [event({ kind: 'item.reclaimed', agent: 'bob', change: freed })]],
    ['by a cancellation, whoever asked for it', [event({ kind: 'item.cancelled', change: freed })]],
    ['by force', [event({ kind: 'lock.forced', subject: 'lock', version: null })]],
    ['by the removal of the item', [event({ kind: 'item.removed', version: null })]],
    ['by the act of another agent', [event({ kind: 'item.completed', agent: 'bob', change: freed })]],
    ['by the end of another grant', [event({ kind: 'item.completed', token: 8, change: freed })]],
    [
      'by an act after it was reclaimed',
      [event({ kind: 'item.reclaimed', change: freed }), event({ kind: 'item.moved', change: freed })],
    ],
  ])('%s', (_, events) => {
    expect(endByHolder([claimed, ...events], grant)).toBe(null)
  })
})
