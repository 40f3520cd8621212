/** Nothing ever waits for itself through others, also where two processes set what items wait for at the same time. */
import { expect, test } from 'vitest'
import { forEachEngine } from '../support/stores.ts'

const rounds = Array.from({ length: 10 }, (_, round) => round)

forEachEngine((engine) => {
  test('two updates at once cannot close a circle between them [S5c-2]', async () => {
    const { hf, store } = await engine.openInRealTime()
    const other = await store.open()
    const { tasks } = hf
    await Promise.all(
      rounds.map(async (round) => {
        await Promise.all(['b', 'd'].map((name) => tasks.addTask(name, { key: name + round })))
        await tasks.addTask('a', { key: `a${round}`, dependsOn: [`b${round}`] })
        await tasks.addTask('c', { key: `c${round}`, dependsOn: [`d${round}`] })
      }),
    )
    const wellDone: number[] = []

    for (const round of rounds) {
      const both = await Promise.allSettled([
        tasks.updateTask(`b${round}`, { dependsOn: [`c${round}`] }),
        other.tasks.updateTask(`d${round}`, { dependsOn: [`a${round}`] }),
      ])
      wellDone.push(both.filter(({ status }) => status === 'fulfilled').length)
    }

    expect(wellDone).toEqual(rounds.map(() => 1))
  })

  test('nor can two changes that are submitted again [S5c-2]', async () => {
    const { hf, store } = await engine.openInRealTime()
    const q = hf.queue('main', { workflow: 'merge' })
    const other = (await store.open()).queue('main')
    const behind = new Map<string, string>()
    const prepare = async (key: string) => {
      const { item } = await q.submit(key, { headSha: 'abcd' })
      await q.cancel(key)
      behind.set(key, (await q.add(null, { blockers: [item.id] })).item.id)
    }
    await Promise.all(rounds.flatMap((round) => [`x${round}`, `y${round}`]).map(prepare))
    const wellDone: number[] = []

    for (const round of rounds) {
      const both = await Promise.allSettled([
        q.submit(`x${round}`, { headSha: 'abcd', blockers: [behind.get(`y${round}`) as string] }),
        other.submit(`y${round}`, { headSha: 'abcd', blockers: [behind.get(`x${round}`) as string] }),
      ])
      wellDone.push(both.filter(({ status }) => status === 'fulfilled').length)
    }

    expect(wellDone).toEqual(rounds.map(() => 1))
  })
})
