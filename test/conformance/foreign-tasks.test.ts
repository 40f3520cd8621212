/** Items that came into the queue `tasks` some other way: their data may say anything, and means the same everywhere. */
import { expect, test } from 'vitest'
import { refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

/** None of these is a list of labels, though each has the word in it. */
const noLabels = {
  text: 'urgent',
  'an object with such a key': { urgent: true },
  'an object with such a value': { kind: 'urgent' },
  'a list in a list': [['urgent']],
}

forEachEngine((engine) => {
  test.each(Object.entries(noLabels))(
    'labels that are %s are none: nothing is found by them, and they block no claim [S5c-9]',
    async (_, labels) => {
      const { hf, add } = await openTasks(engine)
      await add({ labels })
      const sound = await hf.tasks.addTask('sound', { labels: ['urgent'] })

      const { tasks } = await hf.tasks.listTasks({ labels: ['urgent'] })
      const first = await hf.tasks.claimNext({ labels: ['urgent'] })
      const second = await hf.tasks.claimNext({ labels: ['urgent'] })
      const rest = await hf.tasks.claimNext()

      expect(tasks.map(({ id }) => id)).toEqual([sound.id])
      expect(first).toMatchObject({ outcome: 'claimed', task: { id: sound.id } })
      expect(second).toMatchObject({ outcome: 'empty' })
      expect(rest).toMatchObject({ outcome: 'claimed', task: { labels: [] } })
    },
  )

  test.each([
    ['a number', 5, '5'],
    ['true', true, 'true'],
    ['a list', ['5'], '5'],
  ])('an owner or host that is %s counts as none [S5c-9]', async (_, odd, asked) => {
    const { hf, add } = await openTasks(engine)
    const { id } = await add({ owner: odd, host: odd })
    const found = async (filter: object) => (await hf.tasks.listTasks(filter)).tasks.map((task) => task.id)

    expect(await found({ owner: asked })).toEqual([])
    expect(await found({ host: asked })).toEqual([])
    expect(await found({ owner: null, host: null, mine: true })).toEqual([id])
    expect(await hf.tasks.claimNext({ owner: asked })).toMatchObject({ outcome: 'empty' })
    expect(await hf.tasks.claimNext({ host: asked })).toMatchObject({ outcome: 'empty' })
    expect(await hf.tasks.claimNext({ owner: null, host: null, mine: true })).toMatchObject({
      outcome: 'claimed',
      task: { id, owner: null, host: null },
    })
  })

  test('whatever its data says, a task is shown like any other and can be edited [S5c-9]', async () => {
    const { hf, add } = await openTasks(engine)
    const odd = [null, 5, 'word', ['word', 5, null, { at: 1 }], { word: 'word' }]
    const ids: string[] = []
    for (const each of odd)
      ids.push(
        (await add({ title: each, labels: each, paths: each, owner: each, host: each, notes: each })).id,
      )

    const { tasks } = await hf.tasks.listTasks()
    const edited = await Promise.all(ids.map((id) => hf.tasks.updateTask(id, { note: 'seen' })))
    const hints = await hf.tasks.hints()

    const texts = odd.map((each) => (typeof each === 'string' ? each : null))
    const lists = odd.map((each) => (Array.isArray(each) ? ['word'] : []))
    expect(tasks.map(({ id }) => id)).toEqual(ids)
    expect(tasks).toMatchObject(
      ids.map((id, index) => ({
        title: texts[index] ?? id,
        labels: lists[index],
        paths: lists[index],
        owner: texts[index],
        host: texts[index],
        notes: [],
      })),
    )
    expect(edited).toMatchObject(ids.map(() => ({ notes: [{ text: 'seen' }] })))
    expect(hints).toBeDefined()
  })

  test('an invalid note is not shown, and a valid one is kept [S5c-9]', async () => {
    const { hf, add } = await openTasks(engine)
    const note = { at: 1, by: 'ada', text: 'here' }
    await add({ notes: [note, { at: 'then', by: 1, text: null }, 'here', null] })

    const { tasks } = await hf.tasks.listTasks()

    expect(tasks.map(({ notes }) => notes)).toEqual([[note]])
    expect(await refusalCode(() => hf.tasks.claimNext({ labels: 'urgent' } as never))).toBe('INVALID')
  })
})

async function openTasks(engine: Engine) {
  const { hf } = await engine.open({ background: false })
  const q = hf.queue('tasks', { workflow: 'task' })
  return { hf, add: async (data: Record<string, unknown>) => (await q.add(null, { data })).item }
}
