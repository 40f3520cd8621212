/** How the rest of a search goes on: page by page, from the head again where somebody rang, and never for ever. */
import { describe, expect, test } from 'vitest'
import { HoldfastError } from '../../src/errors.ts'
import type { SearchPosition } from '../../src/port/item.ts'
import { claimFound, isTaskThere, type TaskSearch } from '../../src/runtime/waiting/task-search.ts'

const allowedAt = (row: number | null): SearchPosition => ({
  by: 1,
  from: row === null ? null : { priority: 5, addedAt: row, id: `t-${row}` },
})
const rowAt = (position: SearchPosition) => position.from?.addedAt ?? null

interface Given {
  /** How many rows the list has; a look takes ten. */
  readonly rows: number
  /** Rows that fit. */
  readonly fitting?: Set<number>
  /** Called before each look, with a way to ring. */
  readonly beforeLook?: (look: number, ring: () => void) => void
}

/** A list of rows, and what was looked at. */
function listOf({ rows, fitting = new Set(), beforeLook = () => {} }: Given) {
  const looks: (number | 'all')[] = []
  let ring = () => {}
  const search: TaskSearch = {
    onRing(listener) {
      ring = listener
      return () => {
        ring = () => {}
      }
    },
    async seek(at, isWhole) {
      beforeLook(looks.length, () => ring())
      const from = at === null ? 0 : (rowAt(at) as number)
      looks.push(isWhole ? 'all' : from)
      const end = isWhole ? rows : Math.min(rows, from + 10)
      const row = [...fitting].filter((each) => each >= from && each < end).sort((a, b) => a - b)[0]
      const position = allowedAt(row ?? (end < rows ? end : null))
      return { found: row !== undefined, position, isDue: false }
    },
  }
  return { search, looks }
}

const unfinished = (position: SearchPosition) =>
  new HoldfastError('BUSY', { what: 'more', next: 'look', facts: { searched: position } })

/** Takes the row where it is told to begin, as a store does; `empty` at the end. */
const take = (fitting: Set<number>) => async (position: SearchPosition) => {
  const row = rowAt(position)
  if (row === null) return 'empty'
  if (fitting.delete(row)) return `row ${row}`
  throw unfinished(allowedAt(row + 1))
}

describe('a claim that keeps searching [S5e-8]', () => {
  test('walks the list to the first match', async () => {
    const fitting = new Set([25])
    const { search, looks } = listOf({ rows: 40, fitting })

    expect(await claimFound(search, take(fitting))).toBe('row 25')
    expect(looks).toEqual([0, 10, 20])
  })

  test('is empty after one whole walk without a ring', async () => {
    const { search, looks } = listOf({ rows: 25 })

    expect(await claimFound(search, take(new Set()))).toBe('empty')
    expect(looks).toEqual([0, 10, 20])
  })

  test('starts over after a ring: what became ready behind it is found', async () => {
    const fitting = new Set<number>()
    const { search, looks } = listOf({
      rows: 25,
      fitting,
      beforeLook(look, ring) {
        if (look !== 2) return
        fitting.add(3)
        ring()
      },
    })

    expect(await claimFound(search, take(fitting))).toBe('row 3')
    expect(looks).toEqual([0, 10, 20, 0])
  })

  test('a list that fits in one read was empty at that moment, whatever rang', async () => {
    const { search, looks } = listOf({ rows: 5, beforeLook: (_, ring) => ring() })

    expect(await claimFound(search, take(new Set()))).toBe('empty')
    expect(looks).toEqual([0])
  })

  test('under constant rings, the third walk reads the whole list at once', async () => {
    const { search, looks } = listOf({ rows: 15, beforeLook: (_, ring) => ring() })

    expect(await claimFound(search, take(new Set()))).toBe('empty')
    expect(looks).toEqual([0, 10, 0, 10, 'all'])
  })

  test('continues after losing a task to another claim', async () => {
    const fitting = new Set([12, 17])
    const { search, looks } = listOf({ rows: 30, fitting })
    const taken: (number | null)[] = []

    const answer = await claimFound(search, async (position) => {
      taken.push(rowAt(position))
      if (taken.length === 1) fitting.delete(12)
      return take(fitting)(position)
    })

    expect(answer).toBe('row 17')
    expect(taken).toEqual([12, 17])
    expect(looks).toEqual([0, 10, 13])
  })

  test('if the last one was lost and a bell rang, it starts over', async () => {
    const fitting = new Set([2])
    let ringNow = () => {}
    const { search, looks } = listOf({
      rows: 5,
      fitting,
      beforeLook(_, ring) {
        ringNow = ring
      },
    })
    let claims = 0

    const answer = await claimFound(search, async (position) => {
      if (++claims > 1) return take(fitting)(position)
      ringNow()
      fitting.delete(2)
      fitting.add(0)
      throw unfinished(allowedAt(null))
    })

    expect(answer).toBe('row 0')
    expect(looks).toEqual([0, 0])
  })

  test('any other refusal ends it', async () => {
    const { search } = listOf({ rows: 5, fitting: new Set([1]) })
    const refusal = new HoldfastError('PAUSED', { what: 'no', next: 'wait' })

    await expect(
      claimFound(search, async () => {
        throw refusal
      }),
    ).rejects.toBe(refusal)
  })
})

describe('whether a task is there [S5e-8]', () => {
  test('is answered without a claim', async () => {
    expect(await isTaskThere(listOf({ rows: 40, fitting: new Set([33]) }).search)).toBe(true)
    expect(await isTaskThere(listOf({ rows: 40 }).search)).toBe(false)
  })

  test('a delayed one that is due is a reason to claim', async () => {
    const { search } = listOf({ rows: 5 })
    const seek: TaskSearch['seek'] = async (...at) => ({ ...(await search.seek(...at)), isDue: true })

    expect(await isTaskThere({ ...search, seek })).toBe(true)
  })
})
