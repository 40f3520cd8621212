/** Claiming and releasing again and again costs the same for ever and leaves nothing behind but events. */
import { expect, test } from 'vitest'
import { machine } from '../support/processes.ts'
import { isQuick } from '../support/quick.ts'
import { forEachEngine } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

const thousands = isQuick ? 3 : 10

forEachEngine((engine) => {
  test(`${thousands},000 rounds of claim and release on one task cost the same at the end as at the beginning [T22]`, async () => {
    let transactions = 0
    const { env, store } = await engine.open({ background: false })
    const environment = {
      ...machine(env).process(process.pid),
      reached: (point: string) => {
        if (point === 'transaction.begun') transactions++
      },
    }
    const hf = await store.open({ environment, background: false, durability: 'normal' })
    const { id } = await hf.tasks.addTask('one', { key: 'T-1' })
    let { token } = (await claimedTask(hf.tasks.claimTaskForAgent(id, { leaseMs: 1_000 }))).task
    await hf.tasks.releaseTask(id, { token })
    // Time stands still, so each token is the one before plus one, and a hundred rounds can be asked for at once.
    const hundred = () =>
      Promise.all(
        Array.from({ length: 100 }, async () => {
          const granted = ++token
          const claiming = hf.execute('tasks.claimTaskForAgent', { ref: id, leaseMs: 1_000 })
          const releasing = hf.execute('tasks.releaseTask', { ref: id, token: granted })
          expect(await claiming).toMatchObject({ outcome: 'claimed', task: { token: granted } })
          expect(await releasing).toBe(true)
        }),
      )
    const thousand = async () => {
      const before = transactions
      for (let part = 0; part < 10; part++) await hundred()
      return { transactions: transactions - before, rows: await store.countRows() }
    }

    const first = await thousand()
    for (let number = 0; number < thousands - 2; number++) await thousand()
    const last = await thousand()

    const { event: firstEvents, ...firstRows } = first.rows
    const { event: lastEvents, ...lastRows } = last.rows
    expect(first.transactions).toBeGreaterThan(0)
    expect(last.transactions).toBeLessThanOrEqual(first.transactions)
    expect(lastRows).toEqual(firstRows)
    expect((lastEvents as number) - (firstEvents as number)).toBe(2_000 * (thousands - 1))
    expect(await hf.tasks.getTask(id)).toMatchObject({
      status: 'Todo',
      attempts: 1_000 * thousands + 1,
      crashes: 0,
      notes: [],
    })
  })
})
