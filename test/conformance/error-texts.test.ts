/** What programs say when they fail is made fit to be stored; it never keeps their failure from being recorded. */
import { DuplicateError } from 'holdfast'
import { expect, test } from 'vitest'
import { openPost, reachBob } from '../support/messages.ts'
import { claimed, refusal } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

/** NUL, half a character, and a whole one exactly where long texts are cut. */
const odd = 'nul \u0000, half \ud800'
const mended = 'nul \ufffd, half \ufffd'
const longUpTo = (length: number) => `${'x'.repeat(length - 1)}🎉🎉`

forEachEngine((engine) => {
  test('an error has the name of its class, even in the bundle and across threads [S5-23]', async () => {
    const { hf } = await engine.openInRealTime({ agent: 'ada', durability: 'normal' })
    await hf.queue('q').add(1, { key: 'k' })

    const invalid = await refusal(() => hf.queue('../q').add(1))
    const duplicate = await refusal(() => hf.queue('q').add(2, { key: 'k' }))
    const missing = await refusal(() => hf.queue('q').complete('nothing'))

    expect([invalid, duplicate, missing].map(({ name }) => name)).toEqual([
      'InvalidError',
      'DuplicateError',
      'NotFoundError',
    ])
    expect(duplicate).toBeInstanceOf(DuplicateError)
    expect(String(invalid)).toMatch(/^InvalidError: queue\.add: /)
  })

  test.each([odd, longUpTo(10_000)])('a handler that fails with odd words fails its item', async (words) => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    const q = hf.queue('jobs')
    const { item } = await q.add(null, { maxAttempts: 1 })

    hf.work(q, () => {
      throw Object.assign(new Error(words), { code: odd })
    })
    await env.advance(100)

    const failed = await q.get(item.id)
    expect(failed?.state).toBe('failed')
    expect(failed?.error?.message.slice(0, 100)).toBe(words === odd ? mended : 'x'.repeat(100))
    expect(failed?.error?.code).toBe(mended)
  })

  test('a failure with an unusual message is reported with it', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const q = hf.queue('jobs')
    await q.add(null)
    const { item } = await claimed(q.next())

    const failed = await q.fail(item.id, odd, { retryable: false })

    expect(failed.error?.message).toBe(mended)
  })

  test.each([odd, longUpTo(10_000)])('an item of a batch that fails with odd words counts', async (words) => {
    const { hf } = await engine.open({ agent: 'ada' })

    const handler = (item: string) => {
      if (item === 'a') throw new Error(words)
    }
    const report = await hf.locks.runBatch('c1', ['a', 'b'], handler, { gapMs: 0 })

    expect(report).toMatchObject({ outcome: 'completed', progress: { done: 1, failed: 1 } })
    const { outcomes } = await hf.runs.outcomes('c1', { outcome: 'failed' })
    expect(outcomes[0]?.error?.slice(0, 100)).toBe(words === odd ? mended : 'x'.repeat(100))
  })

  test('a batch that fails with an unusual message is paused with it as the reason', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    async function* items() {
      yield 'a'
      throw new Error(`${odd}${longUpTo(3_000)}`)
    }

    await hf.locks.runBatch('c1', items(), () => {}, { gapMs: 0 }).catch(() => {})

    expect(await hf.runs.get('c1')).toMatchObject({
      status: 'paused',
      pauseReason: expect.stringContaining(mended),
    })
  })

  test.each([odd, longUpTo(2_000)])('an attempt that fails with odd words is recorded', async (words) => {
    const post = await openPost(engine)
    await reachBob(post, () => ({ outcome: 'failed', error: words, transient: false }))
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })

    const counts = await post.messages.processRetries()

    expect(counts).toMatchObject({ failed: 1 })
    const [delivery] = (await post.messages.get(message.id))?.deliveries ?? []
    expect(delivery?.error?.slice(0, 100)).toBe(words === odd ? mended : 'x'.repeat(100))
  })
})
