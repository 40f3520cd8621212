import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  assertStateVersion,
  conflictWaitMs,
  giveWay,
  heldBackMs,
  prefer,
  preferenceMs,
  raiseFloor,
  type State,
  type StateFloor,
  saveState,
} from '../../src/domain/state.ts'
import { at, refusalOf } from './samples.ts'

const saving = { key: 'plan', value: '"two"', agent: 'bob', wall: at.wall + 1, update: null }
const plan: State = Object.freeze({
  key: 'plan',
  version: 7,
  updatedAt: at.wall,
  updatedBy: 'ada',
  preferred: null,
  preferredUntil: null,
  value: '"one"',
})

describe('saving a document', () => {
  test('adds 1 to its version and says who saved it and when', () => {
    expect(saveState(plan, null, saving)).toEqual({
      key: 'plan',
      version: 8,
      updatedAt: at.wall + 1,
      updatedBy: 'bob',
      preferred: null,
      preferredUntil: null,
      value: '"two"',
    })
  })

  test('begins at 1 if nothing was ever deleted, else above the floor', () => {
    expect(saveState(null, null, saving).version).toBe(1)
    expect(saveState(null, { version: 41 }, saving).version).toBe(42)
  })

  test('continues from its own version, however high the floor is', () => {
    expect(saveState(plan, { version: 41 }, saving).version).toBe(8)
  })
})

describe('the floor', () => {
  test.each([
    [null, { version: 7 }],
    [{ version: 6 }, { version: 7 }],
    [{ version: 7 }, null],
    [{ version: 8 }, null],
  ])('%o becomes %o when a document at version 7 is deleted', (floor, raised) => {
    expect(raiseFloor(floor, plan)).toEqual(raised)
  })

  test('never lets a version of a key come back, whatever is saved and deleted', () => {
    const acts = fc.array(fc.record({ key: fc.constantFrom('a', 'b'), deletes: fc.boolean() }))
    fc.assert(
      fc.property(acts, (steps) => {
        const documents = new Map<string, State>()
        const seen = new Map<string, number>()
        let floor: StateFloor | null = null
        for (const { key, deletes } of steps) {
          const before = documents.get(key) ?? null
          if (deletes && before) {
            floor = raiseFloor(floor, before) ?? floor
            documents.delete(key)
          } else if (!deletes) {
            const after = saveState(before, floor, { ...saving, key })
            expect(after.version).toBeGreaterThan(seen.get(key) ?? 0)
            seen.set(key, after.version)
            documents.set(key, after)
          }
        }
      }),
    )
  })
})

describe('the version a writer expects', () => {
  test.each([
    [plan, undefined],
    [plan, 7],
    [null, undefined],
    [null, 0],
  ])('of %o may be %o', (state, expected) => {
    expect(() => assertStateVersion('plan', state, expected)).not.toThrow()
  })

  test.each([
    [plan, 6, 7],
    [plan, 8, 7],
    [plan, 0, 7],
    [null, 7, 0],
  ])('of %o cannot be %o: it is %o', (state, expected, current) => {
    const refusal = refusalOf(() => assertStateVersion('plan', state, expected))

    expect(refusal).toMatchObject({
      code: 'VERSION_MISMATCH',
      facts: { subject: 'state plan', expected, current },
    })
  })
})

describe('the wait after a conflict', () => {
  test('is zero the first time, then within a range that doubles up to 320 ms', () => {
    const longest = [1, 2, 3, 4, 5, 6, 7].map((attempt) => conflictWaitMs(attempt, 1))
    const shortest = [1, 2, 7].map((attempt) => conflictWaitMs(attempt, 0))

    expect(longest).toEqual([0, 20, 40, 80, 160, 320, 320])
    expect(shortest).toEqual([0, 0, 0])
  })
})

describe('[S5-7] the order of updates', () => {
  const preferred = prefer(plan, 'mine', at.now)

  test('one is preferred for a while, and the others hold back until that ends', () => {
    expect(heldBackMs(plan, 'other', at.now)).toBe(0)
    expect(heldBackMs(null, 'other', at.now)).toBe(0)
    expect(heldBackMs(preferred, 'mine', at.now)).toBe(0)
    expect(heldBackMs(preferred, 'other', at.now)).toBe(preferenceMs)
    expect(heldBackMs(preferred, 'other', at.now + preferenceMs)).toBe(0)
    expect(preferred.version).toBe(plan.version)
  })

  test('its own save ends the preference; other writes do not', () => {
    const savedBy = (update: string | null) => saveState(preferred, null, { ...saving, update })

    expect(savedBy('mine')).toMatchObject({ preferred: null, preferredUntil: null })
    expect(savedBy('other')).toMatchObject({ preferred: 'mine' })
    expect(savedBy(null)).toMatchObject({ preferred: 'mine', preferredUntil: at.now + preferenceMs })
  })

  test('only the preferred one can give it up', () => {
    expect(giveWay(preferred, 'mine')).toMatchObject({ preferred: null, preferredUntil: null })
    expect(giveWay(preferred, 'other')).toBeNull()
  })
})
