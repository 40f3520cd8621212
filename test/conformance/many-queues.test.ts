/** A store with more queues than a screen shows. */
import type { Holdfast } from 'holdfast'
import { beforeAll, describe, expect, test } from 'vitest'
import { forEachEngine, type Opened } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('with 120 queues', () => {
    let opened: Opened
    let hf: Holdfast
    const nameOf = (number: number) => `q${String(number).padStart(3, '0')}`

    beforeAll(async () => {
      opened = await engine.openForAll({ background: false })
      hf = opened.hf
      const numbers = Array.from({ length: 120 }, (_, number) => number)
      // The later a name, the longer its item waits.
      for (const number of numbers.toReversed()) {
        await hf.queue(nameOf(number)).add(number, { key: `key-${number}` })
        if (number >= 117) await opened.env.advance(60_000)
      }
      await hf.queue('zz-paused').add('kept back')
      await hf.queue('zz-paused').pause()
      const fragile = hf.queue('zz-set-aside', { maxCrashes: 1 })
      await fragile.add('poison')
      await fragile.next({ leaseMs: 0, renew: false })
      await opened.env.advance(10)
      await fragile.detectAndRecoverStale()
      const failing = hf.queue('zz-failing', { maxAttempts: 1 })
      for (let number = 0; number < 3; number++) {
        const { item } = await failing.add(number)
        await failing.next({ renew: false })
        await failing.fail(item.id, 'no', { retryable: false })
      }
      const mending = hf.queue('zz-mending', { maxAttempts: 1 })
      for (let number = 0; number < 25; number++) {
        const { item } = await mending.add(number)
        await mending.next({ renew: false })
        if (number < 14) await mending.fail(item.id, 'no', { retryable: false })
        else await mending.complete(item.id)
        await opened.env.advance(1)
      }
    })

    test('status shows those that most need attention, and says that there are more [S5e-10]', async () => {
      const { queues, moreQueues, alerts } = await hf.fleet.status()

      const names = queues.map(({ name }) => name)
      expect(moreQueues).toBe(true)
      expect(names).toHaveLength(100)
      expect(names).toEqual(
        expect.arrayContaining(['q119', 'q118', 'q117', 'q000', 'zz-paused', 'zz-set-aside']),
      )
      expect(queues.find(({ name }) => name === 'zz-set-aside')).toMatchObject({
        quarantined: { count: 1, more: false },
      })
      expect(alerts.map(({ what }) => what).join('\n')).toContain('zz-set-aside')
    })

    test('alerts name one whose items fail although none is waiting in it [S5e-10]', async () => {
      const { alerts } = await hf.fleet.status()
      const { findings } = await hf.fleet.doctor()

      const failing = expect.stringContaining('queue zz-failing: 3 of the last 3')
      expect(alerts).toContainEqual(expect.objectContaining({ code: 'mostly_failing', what: failing }))
      expect(findings).toContainEqual(expect.objectContaining({ what: failing }))
    })

    test('one is ranked by as many of its newest items as its alert looks at [S6-B]', async () => {
      const { queues, alerts } = await hf.fleet.status()

      const failing = expect.stringContaining('queue zz-mending: 14 of the last 25')
      expect(queues.map(({ name }) => name)).toContain('zz-mending')
      expect(alerts).toContainEqual(expect.objectContaining({ code: 'mostly_failing', what: failing }))
    })

    test('prime shows the same ones [S5e-10]', async () => {
      const { queues, moreQueues } = await hf.fleet.prime()

      expect(moreQueues).toBe(true)
      expect(queues.find(({ name }) => name === 'q119')).toMatchObject({ ready: { count: 1, more: false } })
    })

    test('each of them can be found by name, and explained [S5e-10]', async () => {
      for (const name of ['q005', 'q119', 'zz-paused']) {
        const explained = await hf.fleet.explain(name)

        expect(explained).toMatchObject({ kind: 'queue', id: name })
      }
    })

    test('a key is found in whichever queue it is [S5e-10]', async () => {
      const found = await hf.fleet.explain('key-3')

      expect(found).toMatchObject({ kind: 'item', queue: 'q003' })
    })
  })

  test('lists of held, failed and quarantined items continue page by page [S5e-3]', async () => {
    const { hf } = await engine.open({ background: false })
    const queue = hf.queue('jobs', { maxAttempts: 1 })
    for (let number = 0; number < 5; number++) {
      await queue.add(number)
      const claim = await queue.next({ renew: false })
      if (claim.outcome === 'claimed' && number < 3)
        await queue.fail(claim.item.id, 'no', { retryable: false })
    }
    await queue.add('waits')

    const pages = async (options: object) => {
      const payloads: unknown[] = []
      for (let after: string | undefined; ; ) {
        const page = await queue.list({ ...options, limit: 2, ...(after === undefined ? {} : { after }) })
        payloads.push(...page.items.map(({ payload }) => payload))
        if (page.next === null) return payloads
        after = page.next
      }
    }

    expect((await pages({ states: ['failed'] })).toSorted()).toEqual([0, 1, 2])
    expect((await pages({ states: ['failed', 'cancelled'] })).toSorted()).toEqual([0, 1, 2])
    expect(await pages({ states: ['running'] })).toEqual([3, 4])
    expect(await pages({ states: ['running', 'pending', 'failed'] })).toHaveLength(6)
    expect(await pages({ states: ['done'] })).toEqual([])
    expect(await pages({ quarantined: true })).toEqual([])
  })
  test('counts of ready items stop at 10,000 and say that there are more [S5e-4]', async () => {
    const { hf } = await engine.open({ background: false })
    const queue = hf.queue('long')
    for (let batch = 0; batch < 10; batch++)
      await queue.addMany(Array.from({ length: 1000 }, () => ({ payload: null })))
    const full = await hf.fleet.status()
    await queue.add('one more')

    const { queues } = await hf.fleet.status()

    expect(full.queues).toMatchObject([{ ready: { count: 10_000, more: false } }])
    expect(queues).toMatchObject([{ ready: { count: 10_000, more: true } }])
    expect((await hf.fleet.prime()).queues).toMatchObject([{ ready: { count: 10_000, more: true } }])
  })

  test('a key that was reused a thousand times refers to its open item [S5e-10]', async () => {
    const { hf } = await engine.open({ background: false })
    const queue = hf.queue('nightly')
    const round = () =>
      Promise.all([
        hf.execute('queue.add', { queue: 'nightly', payload: null, key: 'report' }),
        hf.execute('queue.cancel', { queue: 'nightly', ref: 'report' }),
      ])
    await round()
    // Commands take effect in the order in which they were sent, so a hundred rounds can be asked for at once.
    for (let part = 0; part < 10; part++) await Promise.all(Array.from({ length: 100 }, round))
    const { item } = await queue.add('now', { key: 'report' })

    const found = await hf.fleet.explain('report')

    expect(found).toMatchObject({ kind: 'item', queue: 'nightly', id: item.id })
    expect(await queue.stats()).toMatchObject({ cancelled: 1001, total: 1002 })
  })
})
