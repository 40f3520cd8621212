/** Time that a test moves, and the real world that does not wait for it. */
import { connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { MovableEnvironment } from '../../src/testing.ts'

test('time waits for the answer of a real server, and for what follows from it', async () => {
  const env = new MovableEnvironment()
  const ask = await echo()
  const seen: [string, number][] = []
  const begin = env.monotonic()
  const note = (what: string) => seen.push([what, env.monotonic() - begin])

  const askTwice = async () => {
    note(await env.outside(ask('first')))
    await turns(3)
    note(await env.outside(ask('second')))
  }
  env.timer(100, () => void askTwice())
  env.timer(101, () => note('the next timer'))
  await env.advance(1_000)

  expect(seen).toEqual([
    ['first', 100],
    ['second', 100],
    ['the next timer', 101],
  ])
})

test('time waits until the last of several answers has arrived', async () => {
  const env = new MovableEnvironment()
  const begin = env.monotonic()
  const seen: [number, number][] = []

  for (const count of [5, 200, 40]) {
    void env.outside(turns(count)).then(() => seen.push([count, env.monotonic() - begin]))
  }
  await env.advance(1_000)

  expect(seen).toEqual([
    [5, 0],
    [40, 0],
    [200, 0],
  ])
})

test('concurrent callers that move time all wait, and continue', async () => {
  const env = new MovableEnvironment()
  let isThere = false
  void env.outside(turns(50)).then(() => {
    isThere = true
  })

  const seen = await Promise.all([1, 2, 3].map(() => env.advance(0).then(() => isThere)))

  expect(seen).toEqual([true, true, true])
})

test('results are passed through, failures too', async () => {
  const env = new MovableEnvironment()
  const failing = env.outside(turns(10).then(() => Promise.reject(new Error('refused'))))
  const caught = failing.catch((error: Error) => error.message)

  await env.advance(0)

  expect(await caught).toBe('refused')
  expect(await env.outside(Promise.resolve(7))).toBe(7)
})

test('a call that waits for the test itself delays time only until patience ends, and only once', async () => {
  const env = new MovableEnvironment()
  env.patienceMs = 20
  let letGo = () => {}
  const held = env.outside(
    new Promise<void>((resolve) => {
      letGo = resolve
    }),
  )
  const begin = env.monotonic()
  await env.advance(10)

  env.patienceMs = 1_000_000
  await env.advance(10)
  letGo()
  await held

  expect(env.monotonic() - begin).toBe(20)
})

/** A server on this machine that sends back what it is sent, many turns of the loop later. */
async function echo(): Promise<(text: string) => Promise<string>> {
  const server = createServer((socket) =>
    socket.on('data', (data) => void turns(50).then(() => socket.write(data))),
  )
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const address = server.address()
  if (address === null || typeof address === 'string') expect.fail('the server has no port')
  const socket: Socket = connect(address.port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
    server.close()
  })
  return (text) =>
    new Promise((answered) => {
      socket.once('data', (data) => answered(data.toString()))
      socket.write(text)
    })
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate)
}
