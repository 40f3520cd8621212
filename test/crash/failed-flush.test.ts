/** A disk that fails when a commit is flushed, for real: the kernel's answer is replaced, so this needs strace. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { type Actor, expectSoundAndFree, newStore, openActor, openHere, query } from './support.ts'

const hasStrace = spawnSync('strace', ['-V']).status === 0

test.runIf(hasStrace)(
  'a change in doubt that was settled does not come back when its process is killed [S5-28] [X4]',
  async () => {
    const store = newStore()
    const actor = await openActor(store, { background: false })
    await actor.ask('add', { queue: 'q', payload: 'before' })

    const mend = await failFlushes(actor, 'when=1')
    const refused = await actor.askRefusal('add', { queue: 'q', payload: 'doubted' })
    await mend()
    actor.kill()
    await actor.ended()

    expect(refused).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { inDoubt: true } })
    expect(await payloads(store)).toEqual(['before'])
    expectSoundAndFree(store)
  },
)

test.runIf(hasStrace)(
  'while every flush fails nothing is acknowledged; then the same process carries on [S5-28] [X4]',
  async () => {
    const store = newStore()
    const actor = await openActor(store, { background: false })
    await actor.ask('add', { queue: 'q', payload: 'before' })

    const mend = await failFlushes(actor, 'when=1+')
    const refusals = [
      await actor.askRefusal('add', { queue: 'q', payload: 'first' }),
      await actor.askRefusal('add', { queue: 'q', payload: 'second' }),
    ]
    await mend()
    await actor.ask('add', { queue: 'q', payload: 'after' })
    actor.kill()
    await actor.ended()

    expect(refusals.map(({ facts }) => facts.inDoubt)).toEqual([true, false])
    expect(await payloads(store)).toEqual(['before', 'after'])
    expectSoundAndFree(store)
  },
)

/** From here on the kernel says that flushing failed; what was written is written all the same. */
async function failFlushes(actor: Actor, when: string): Promise<() => Promise<void>> {
  const inject = `inject=fsync,fdatasync:error=EIO:${when}`
  const tracer = spawn('strace', ['-f', '-e', inject, '-o', '/dev/null', '-p', String(actor.pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  await attached(tracer)
  return async () => {
    const ended = new Promise((resolve) => tracer.once('exit', resolve))
    tracer.kill('SIGINT')
    await ended
  }
}

function attached(tracer: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    tracer.once('exit', (code) => reject(new Error(`strace ended with ${code}`)))
    tracer.stderr?.on('data', (text) => String(text).includes('attached') && resolve())
  })
}

/** In this process, which finds a log to recover. */
async function payloads(store: string): Promise<unknown[]> {
  const hf = await openHere(store, { background: false })
  const { items } = await hf.queue('q').list()
  expect(query(store, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }])
  return items.map(({ payload }) => payload)
}
