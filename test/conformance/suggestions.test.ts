/** A mistyped name is refused with the intended one, even for an option that only one method has. */
import type { Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const waits: Record<string, (hf: Holdfast, options: object) => unknown> = {
  'queue.next': (hf, options) => hf.queue('q').next(options),
  'queue.nextWithLock': (hf, options) => hf.queue('q').nextWithLock(options),
  'tasks.claimNext': (hf, options) => hf.tasks.claimNext(options),
  'locks.acquireLock': (hf, options) => hf.locks.acquireLock('press', options),
}

forEachEngine((engine) => {
  test.each(Object.keys(waits))('waitms and wait were meant as waitMs of %s [S5-21]', async (name) => {
    const { hf } = await engine.open({ agent: 'ada' })

    for (const wrong of ['waitms', 'wait', 'waitMS']) {
      const error = await refusal(() => waits[name]?.(hf, { [wrong]: 5 }))
      expect(error).toMatchObject({ code: 'INVALID', next: 'did you mean "waitMs"?' })
    }
  })

  test.each([
    ['prio', 'priority', (hf: Holdfast, options: object) => hf.queue('q').add(1, options)],
    ['idempotency', 'idempotencyKey', (hf: Holdfast, options: object) => hf.queue('q').add(1, options)],
    ['lease', 'leaseMs', (hf: Holdfast, options: object) => hf.queue('q').next(options)],
    ['renews', 'renew', (hf: Holdfast, options: object) => hf.queue('q').next(options)],
    ['runat', 'runAt', (hf: Holdfast, o: object) => hf.queue('q').addMany([{ payload: 1, ...o }])],
  ] as const)('%s was meant as %s [S5-21]', async (wrong, meant, act) => {
    const { hf } = await engine.open({ agent: 'ada' })

    const error = await refusal(() => act(hf, { [wrong]: 1 }))

    expect(error).toMatchObject({ code: 'INVALID', next: `did you mean "${meant}"?` })
  })

  test('a key that is in use is refused with the call that works instead [S5-21]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    await hf.tasks.addTask('one', { key: 'T-1' })
    await hf.queue('jobs').add(1, { key: 'one' })
    await hf.queue('main', { workflow: 'merge' }).submit('w1', { headSha: 'abcd' })

    const nexts = await Promise.all([
      refusal(() => hf.tasks.addTask('two', { key: 'T-1' })),
      refusal(() => hf.queue('jobs').add(2, { key: 'one' })),
      refusal(() => hf.queue('main').add(3, { key: 'w1' })),
    ])

    expect(nexts.map(({ code }) => code)).toEqual(['DUPLICATE', 'DUPLICATE', 'DUPLICATE'])
    expect(nexts.map(({ next }) => next.includes('submit()'))).toEqual([false, false, true])
    expect(nexts[0]?.next).toContain('updateTask()')
  })
})
