/** Processes that write one store in turns: a turn ends on its own, whatever happened to its process. */
import { systemEnvironment } from 'holdfast/testing'
import { expect, test } from 'vitest'
import { openRaw } from '../support/sqlite-file.ts'
import { expectSoundAndFree, newStore, openActor, openHere, print } from './support.ts'

test.each(['SIGSTOP', 'SIGKILL'] as const)(
  'a process that gets %s in its turn does not stop other writers [X6] [EP-001]',
  async (signal) => {
    const store = newStore()
    let comes = () => {}
    const ourTurn = new Promise<void>((resolve) => {
      comes = resolve
    })
    const reached = (point: string) => {
      if (point === 'turn.taken') comes()
    }
    const environment = { ...systemEnvironment, reached }
    const hf = await openHere(store, { background: false, environment })
    const queue = hf.queue('q')
    await queue.add('before')
    const victim = await openActor(store, { background: false })
    await victim.ask('set', { point: 'turn.taken', signal })

    // Whoever comes now is refused and stands in line, where the victim is first.
    const stranger = openRaw(store)
    stranger.exec('begin immediate')
    const late = victim.send('add', { queue: 'q', payload: 'late' })
    const { at: stoppedAt } = await victim.told('trapped')
    const adding = queue.add('after')
    await ourTurn
    const passedOnAfterMs = performance.now() - stoppedAt
    stranger.exec('rollback')
    stranger.close()
    await adding
    for (let number = 0; number < 20; number++) await queue.add('on and on')

    print(`our turn came ${Math.round(passedOnAfterMs)} ms after ${signal}`)
    expect(await queue.stats()).toMatchObject({ total: 22 })
    if (signal === 'SIGSTOP') {
      victim.kill('SIGCONT')
      await victim.told('answer', ({ number, error }) => number === late && error === undefined)
      expect(await queue.stats()).toMatchObject({ total: 23 })
    }
    expectSoundAndFree(store)
  },
)
