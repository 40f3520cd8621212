/** Retrying everything in a queue that failed, at once. */
import type { Queue } from 'holdfast'
import { expect, test } from 'vitest'
import { claimed, present, refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('everything that failed is in line again, and nothing else is touched', async () => {
    const { hf } = await engine.open()
    const queue = hf.queue('builds', { maxAttempts: 1 })
    await queue.addMany(Array.from({ length: 250 }, (_, index) => ({ payload: index })))
    await failAll(queue)
    await hf.queue('other').add('untouched')
    const done = await queue.add('done')
    await queue.complete((await claimed(queue.next())).item.id)
    const cancelled = await queue.add('cancelled')
    await queue.cancel(cancelled.item.id)

    const report = await queue.retryFailed({ reason: 'the bad deploy is gone' })

    expect(report).toEqual({ retried: 250, refused: 0, refusals: [] })
    expect(await queue.stats()).toMatchObject({ pending: 250, failed: 0, completed: 1, cancelled: 1 })
    expect((await present(queue.get(done.item.id))).state).toBe('done')
    const [first] = (await queue.list({ limit: 1 })).items
    expect((await queue.events(first?.id ?? '')).at(-1)).toMatchObject({
      kind: 'item.retried',
      detail: { reason: 'the bad deploy is gone' },
    })
  })

  test('an item whose key another one has taken stays failed, is reported, and stops none of the others', async () => {
    const { hf } = await engine.open()
    const queue = hf.queue('builds', { maxAttempts: 1 })
    const taken = await queue.add('old', { key: 'main' })
    await queue.add('free', { key: 'next' })
    await failAll(queue)
    const open = await queue.add('new', { key: 'main' })

    const report = await queue.retryFailed()

    expect(report).toMatchObject({ retried: 1, refused: 1, refusals: [{ id: taken.item.id, key: 'main' }] })
    expect(report.refusals[0]?.error).toContain(open.item.id)
    expect((await present(queue.get(taken.item.id))).state).toBe('failed')
  })

  test('of two failed items with one key, one is retried', async () => {
    const { hf } = await engine.open()
    const queue = hf.queue('builds', { maxAttempts: 1 })
    for (const payload of ['first', 'second']) {
      await queue.add(payload, { key: 'main' })
      await failAll(queue)
    }

    expect(await queue.retryFailed()).toMatchObject({ retried: 1, refused: 1 })
    expect(await queue.stats()).toMatchObject({ pending: 1, failed: 1 })
  })

  test('a dry run counts and changes nothing', async () => {
    const { hf } = await engine.open()
    const queue = hf.queue('builds', { maxAttempts: 1 })
    await queue.add('a')
    await failAll(queue)

    expect(await queue.retryFailed({ dryRun: true })).toEqual({ retried: 1, refused: 0, refusals: [] })
    expect(await queue.stats()).toMatchObject({ pending: 0, failed: 1 })
  })

  test('of failed merges, those that failed for good are left alone', async () => {
    const { hf } = await engine.open()
    const queue = hf.queue('merges', { workflow: 'merge' })
    for (const [key, retryable] of [
      ['flaky', true],
      ['broken', false],
    ] as const) {
      await queue.submit(key, { headSha: '7f2a9c1' })
      const { item } = await claimed(queue.nextWithLock())
      await queue.fail(item.id, { message: 'tests failed' }, { retryable })
      await queue.releaseProcessingLock()
    }

    const report = await queue.retryFailed()

    expect(report).toEqual({ retried: 1, refused: 0, refusals: [] })
    expect((await present(queue.get('flaky'))).state).toBe('pending')
    expect((await present(queue.get('broken'))).state).toBe('failed_terminal')
  })

  test('a queue that nobody has used, and one whose items cannot be retried, have nothing to retry', async () => {
    const { hf } = await engine.open()
    await hf.tasks.addTask('T-1')

    expect(await hf.queue('nothing').retryFailed()).toEqual({ retried: 0, refused: 0, refusals: [] })
    expect(await hf.queue('tasks').retryFailed()).toEqual({ retried: 0, refused: 0, refusals: [] })
    expect((await hf.queue('tasks').list({ retryable: true })).items).toEqual([])
  })

  test('a list of retryable items keeps to the states it was asked for', async () => {
    const { hf } = await engine.open()
    const queue = hf.queue('builds', { maxAttempts: 1 })
    await queue.add('a')
    await failAll(queue)

    expect((await queue.list({ retryable: true, states: ['failed'] })).items).toHaveLength(1)
    expect((await queue.list({ retryable: true, states: ['done', 'pending'] })).items).toEqual([])
  })

  test('a mistyped option retries nothing', async () => {
    const { hf } = await engine.open()
    const queue = hf.queue('builds', { maxAttempts: 1 })
    await queue.add('a')
    await failAll(queue)

    expect(await refusalCode(() => queue.retryFailed({ dryrun: true } as never))).toBe('INVALID')
    expect(await queue.stats()).toMatchObject({ failed: 1 })
  })
})

async function failAll(queue: Queue<unknown>): Promise<void> {
  for (;;) {
    const claim = await queue.claimMany(100)
    if (claim.outcome !== 'claimed') return
    await Promise.all(claim.items.map(({ item }) => queue.fail(item.id, new Error('no disk'))))
  }
}
