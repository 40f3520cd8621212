import { describe, expect, test } from 'vitest'
import {
  assertFresh,
  assertHeadSha,
  assertRebasedFrom,
  isFresh,
  isPastCancelling,
  returnItem,
  withRebase,
} from '../../src/domain/merge.ts'
import { submitAgain } from '../../src/domain/submission.ts'
import { at, heldStatesOf, itemIn, job, merge, refusalOf, task } from './samples.ts'

const ready = itemIn(merge, 'ready_to_merge', {
  data: { bead: 'b-7', headSha: 'head1', testedAgainstSha: 'main1', rebaseCount: 2 },
})

describe('the id of a commit or change', () => {
  test.each(['abcd', '0123456789abcdef', 'kztuxlro', 'a'.repeat(128)])('%s is accepted', (headSha) => {
    expect(() => assertHeadSha(headSha)).not.toThrow()
  })

  test.each(['', 'abc', 'a'.repeat(129), 'abc def', 'HEAD~1', '--exec=x', 'ab\ncd', 'äöüß'])(
    '"%s" is refused with the text that was given',
    (headSha) => {
      const refusal = refusalOf(() => assertHeadSha(headSha))

      expect(refusal).toMatchObject({ code: 'INVALID', facts: { headSha } })
    },
  )

  test('a refusal shows the beginning of a very long text, not all of it', () => {
    const refusal = refusalOf(() => assertHeadSha('x'.repeat(100_000)))

    expect(refusal.message.length).toBeLessThan(300)
  })
})

describe('the head of a rebase', () => {
  const claimed = itemIn(merge, 'rebasing', { data: { headSha: 'aaaa' } })
  const submit = (item: typeof claimed, headSha: string) =>
    submitAgain(item, merge, { headSha }, { around: { dependents: [], awaited: [] }, wall: at.wall })

  test('of the head that was claimed needs no proof', () => {
    expect(() => assertRebasedFrom(claimed, undefined)).not.toThrow()
    expect(() => assertRebasedFrom(claimed, 'aaaa')).not.toThrow()
  })

  test.each([undefined, 'aaaa'])('of %s is refused once another head was submitted [Q21]', (fromSha) => {
    const refusal = refusalOf(() => assertRebasedFrom(submit(claimed, 'bbbb'), fromSha))

    expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { to: 'testing', headSha: 'bbbb' } })
  })

  test('of the new head is recorded, and needs no proof the next time', () => {
    const changed = submit(claimed, 'bbbb')

    assertRebasedFrom(changed, 'bbbb')
    const rebased = withRebase(changed, { headSha: 'bbbb01', testedAgainstSha: 'main1' }, at.wall)

    expect(rebased.data).toMatchObject({ headSha: 'bbbb01', testedAgainstSha: 'main1', rebaseCount: 1 })
    expect(rebased.data).not.toHaveProperty('headChangedUnder')
    expect(() => assertRebasedFrom(rebased, undefined)).not.toThrow()
    const { message } = refusalOf(() => assertRebasedFrom(rebased, 'bbbb'))
    expect(message).toContain('no longer has the head bbbb, but bbbb01;')
  })

  test('by the next holder, who has read the new head, needs no proof', () => {
    const changed = submit(claimed, 'bbbb')

    expect(() => assertRebasedFrom({ ...changed, token: changed.token + 1 }, undefined)).not.toThrow()
  })

  test('after a new head that nobody held the change for needs no proof', () => {
    const free = submit(itemIn(merge, 'pending', { data: { headSha: 'aaaa' } }), 'bbbb')

    expect(free.data).not.toHaveProperty('headChangedUnder')
  })
})

describe('freshness', () => {
  test('a change tested against the current target is fresh', () => {
    expect(isFresh(ready, 'main1')).toBe(true)
  })

  test.each([
    ['the target has moved on', 'main1', 'main2'],
    ['it was never tested', undefined, 'main1'],
    ['the baseline was forgotten', null, 'main1'],
    ['the baseline is damaged', 7, '7'],
    ['the baseline is a list', ['main1'], 'main1'],
    ['the spelling differs', 'MAIN1', 'main1'],
    ['only the beginning is the same', 'main', 'main1'],
  ])('it is not fresh when %s [Q21]', (_, testedAgainstSha, mainSha) => {
    const item = itemIn(merge, 'ready_to_merge', { data: { testedAgainstSha } })

    expect(isFresh(item, mainSha)).toBe(false)
  })

  test('a new head makes a tested item stale and keeps its other fields', () => {
    const changed = submitAgain(
      ready,
      merge,
      { headSha: 'head2' },
      { around: { dependents: [], awaited: [] }, wall: at.wall },
    )

    expect(isFresh(changed, 'main1')).toBe(false)
    expect(changed).toEqual({
      ...ready,
      data: {
        bead: 'b-7',
        headSha: 'head2',
        testedAgainstSha: null,
        headChangedUnder: ready.token,
        rebaseCount: 2,
      },
      version: ready.version + 1,
    })
  })

  test('only a change tested against the target may merge onto it [S5c-49]', () => {
    const untested = itemIn(merge, 'ready_to_merge')

    expect(() => assertFresh(ready, 'main1')).not.toThrow()
    expect(() => assertFresh(ready, 'main2')).toThrow(/onto main2: it was tested against main1/)
    expect(() => assertFresh(untested, 'main1')).toThrow(/it was not tested since/)
  })

  test('an item that is sent back is stale and keeps its other fields', () => {
    const changed = returnItem(ready, merge, 'main2', at)

    expect(changed.data).toEqual({ bead: 'b-7', headSha: 'head1', testedAgainstSha: null, rebaseCount: 2 })
  })
})

describe('a rebase', () => {
  test('records both ends and the time, and is counted [Q21]', () => {
    const rebased = withRebase(ready, { headSha: 'head2', testedAgainstSha: 'main2' }, at.wall)

    expect(rebased.data).toEqual({
      bead: 'b-7',
      headSha: 'head2',
      testedAgainstSha: 'main2',
      rebaseCount: 3,
      lastRebaseAt: at.wall,
    })
  })

  test.each([undefined, null, 'many'])('counts from 1 when the count so far is %s', (rebaseCount) => {
    const item = itemIn(merge, 'rebasing', { data: { rebaseCount } })

    const rebased = withRebase(item, { headSha: 'head1', testedAgainstSha: 'main1' }, at.wall)

    expect(rebased.data.rebaseCount).toBe(1)
  })
})

describe('returning to rebasing', () => {
  test('is for changes that are ready to merge and no longer fresh', () => {
    expect(returnItem(ready, merge, 'main2', at).state).toBe('rebasing')
  })

  test('is an ordinary change of state: its times never run backwards, its holder stays [S5-25]', () => {
    const started = itemIn(merge, 'ready_to_merge', { startedAt: at.wall + 5, stateChangedAt: at.wall - 9 })

    const returned = returnItem(started, merge, 'main2', at)

    expect(returned).toMatchObject({
      previousState: 'ready_to_merge',
      stateChangedAt: at.wall + 5,
      phase: 'held',
      agent: started.agent,
      token: started.token,
      version: started.version + 1,
    })
    expect(returned.data.testedAgainstSha).toBeNull()
  })

  test('is refused while it is fresh, naming both states [Q21]', () => {
    const refusal = refusalOf(() => returnItem(ready, merge, 'main1', at))

    expect(refusal).toMatchObject({
      code: 'ILLEGAL_MOVE',
      facts: { from: 'ready_to_merge', to: 'rebasing' },
    })
  })

  test.each(Object.keys(merge.states).filter((state) => state !== 'ready_to_merge'))(
    'is refused from %s, naming both states',
    (state) => {
      const refusal = refusalOf(() => returnItem(itemIn(merge, state), merge, 'main2', at))

      expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: state, to: 'rebasing' } })
    },
  )
})

describe('being past cancelling', () => {
  test('is true of merging and of no other held state of a merge [Q20]', () => {
    const past = heldStatesOf(merge).filter((state) => isPastCancelling(itemIn(merge, state), merge))

    expect(past).toEqual(['merging'])
  })

  test('is false for an item that nobody holds, even if it cannot be cancelled', () => {
    expect(isPastCancelling(itemIn(merge, 'merged'), merge)).toBe(false)
  })

  test('is false for a running job', () => {
    expect(isPastCancelling(itemIn(job, 'running'), job)).toBe(false)
  })

  test('is true of a held item under a workflow without cancelling', () => {
    expect(isPastCancelling(itemIn(task, 'in_progress'), task)).toBe(true)
  })
})
