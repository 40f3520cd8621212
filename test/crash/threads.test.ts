/** The thread that renews leases starts however the program was started, and before anything is claimed. */
import { describe, expect, test } from 'vitest'
import { ownServer } from './server-store.ts'
import { newStore, openHere, program, run, until } from './support.ts'

const own = ownServer()
const engines = { sqlite: newStore, postgres: () => own.newStore() }

/** Two thirds of it are time enough for a renewal on a busy machine. */
const leaseMs = 2000

/** Claims an item and waits until its lease was renewed or lost; says so, or what the store said instead. */
function claiming(store: string): string {
  return `
import { open } from ${JSON.stringify(import.meta.resolve('holdfast'))}
try {
  const hf = await open(${JSON.stringify(store)}, { agent: 'typed', logger: false })
  const queue = hf.queue('q')
  await queue.add('work')
  const { item, lease } = await queue.next({ leaseMs: ${leaseMs} })
  while (lease.isHeld) {
    const { lease: now } = await queue.get(item.id)
    if (now?.renewedAt > item.lease.renewedAt) break
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  console.log(lease.isHeld ? 'renewed' : 'lost')
  await hf.close()
} catch (error) {
  console.log(error.code, error.message)
}
`
}

/** Options of Node for code that runs first in every thread but the main one. */
function inThreads(code: string): { NODE_OPTIONS: string } {
  const first = `import{isMainThread}from'node:worker_threads';if(!isMainThread){${code}}`
  return { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(first)}` }
}

describe.each(Object.keys(engines) as (keyof typeof engines)[])('on %s', (engine) => {
  const ways: Readonly<Record<string, (code: string) => ReturnType<typeof run>>> = {
    'node --input-type=module -e': (code) => run(process.execPath, ['--input-type=module', '-e', code]),
    'standard input': (code) => run(process.execPath, ['--input-type=module', '-'], { input: code }),
    'standard input and NODE_OPTIONS': (code) =>
      run(process.execPath, ['-'], { input: code, env: { NODE_OPTIONS: '--input-type=module' } }),
  }

  test.each(Object.keys(ways))('a program given by %s keeps its lease [S5-29]', async (way) => {
    const ending = await (ways[way] as (code: string) => ReturnType<typeof run>)(claiming(engines[engine]()))

    expect(ending).toMatchObject({ code: 0, stdout: 'renewed\n', stderr: '' })
  })

  test('program threads that close the store, or just end, leave their process running and nothing held [S5c-15]', async () => {
    const store = engines[engine]()

    const ending = await run(process.execPath, [program('threads'), store])

    expect(ending).toMatchObject({ code: 0, signal: null, stderr: '' })
    const codes = { closed: 0, terminated: 1, returned: 0, exited: 3, threw: 1 }
    expect(JSON.parse(ending.stdout)).toEqual(codes)
    const hf = await openHere(store)
    for (const way of Object.keys(codes)) {
      const isFree = async () => (await hf.queue(way).stats()).processing === 0
      await until(`the item of the thread that ${way} is free`, isFree)
    }
  })

  test('open() fails with the reason if its thread cannot start [S5-29] [X4]', async () => {
    const env = inThreads("throw new Error('no threads today')")

    const ending = await run(process.execPath, ['--input-type=module', '-'], {
      input: claiming(engines[engine]()),
      env,
    })

    expect(ending).toMatchObject({ code: 0, stderr: '' })
    expect(ending.stdout).toMatch(
      /^STORE_UNAVAILABLE the thread .* could not be started \(no threads today\)/,
    )
  })

  test('a lease shorter than the start of a thread is still renewed [S5-34]', async () => {
    const env = inThreads(`Atomics.wait(new Int32Array(new SharedArrayBuffer(4)),0,0,${leaseMs + 500})`)

    const ending = await run(process.execPath, ['--input-type=module', '-'], {
      input: claiming(engines[engine]()),
      env,
    })

    expect(ending).toMatchObject({ code: 0, stdout: 'renewed\n', stderr: '' })
  })
})
