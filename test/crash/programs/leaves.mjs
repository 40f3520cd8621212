/** Short programs, as people write them: nothing keeps them alive but what they await. */
import { open } from 'holdfast'

const [store, how] = process.argv.slice(2)
const laterMs = 1000

const ways = {
  async closes(hf) {
    await work(hf.queue('q'))
    await hf.close()
  },

  async 'opens and closes again and again'(hf) {
    await hf.close()
    for (let round = 0; round < 2; round++) {
      const next = await open(store, { agent: 'short', logger: false })
      await next.queue('q').add('work')
      await next.close()
    }
  },

  'does not close': (hf) => work(hf.queue('q')),

  async 'closes with a worker'(hf) {
    await hf.queue('q').add('work')
    await new Promise((resolve) => hf.work('q', resolve))
    await hf.close()
  },

  /** The handle was opened without anything in the background: nobody would renew what a worker claims. */
  async 'works without renewal'(hf) {
    await hf.queue('q').add('work')
    await new Promise((resolve) => hf.work('q', resolve))
    await hf.close()
  },

  async 'leaves while holding'(hf) {
    await hf.queue('q').add('work')
    await hf.queue('q').next()
  },

  /** In the middle of its thread's work on the store: there is always something to heal. */
  async 'exits at any moment'(hf) {
    const queue = hf.queue('stale')
    for (let round = 0; round < 10; round++) {
      await queue.addMany(Array.from({ length: 100 }, () => ({ payload: 'work' })))
      await queue.claimMany(100, { agent: 'gone', leaseMs: 1 })
    }
    for await (const { kind } of hf.events()) if (kind === 'item.reclaimed') break
    console.log('finished')
    process.exit(0)
  },

  async 'adds while another writes'(hf) {
    await hf.queue('q').add('work')
    await hf.close()
  },

  /** Idle for a second, with nothing else to do: the item is not due before. */
  async 'waits for work'(hf) {
    await hf.queue('q').add('work', { runAt: Date.now() + laterMs })
    await new Promise((resolve) => hf.work('q', resolve))
    await hf.close()
  },

  /** The same, but somebody else does the work and the program only hears of it. */
  async 'waits for an event'(hf) {
    await hf.queue('q').add('work', { runAt: Date.now() + laterMs })
    for await (const { kind } of hf.events()) if (kind === 'item.completed') break
    await hf.close()
  },
}

const optionsOf = {
  'adds while another writes': { busyTimeoutMs: 500 },
  'exits at any moment': { recovery: { onClaim: false, everyMs: 20 } },
  'works without renewal': { background: false },
}

try {
  await ways[how](await open(store, { agent: 'short', logger: false, ...optionsOf[how] }))
  console.log('finished')
} catch (error) {
  console.log(error.code ?? error.stack)
}

async function work(queue) {
  await queue.add('work')
  const { item } = await queue.next()
  await queue.complete(item.id)
}
