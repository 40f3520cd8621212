/** The HTTP fence: a real server whose tokens lie in a database of its own. */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createHttpFence,
  createSqlFence,
  fenceHeaders,
  type Grant,
  type HttpFenceOptions,
} from 'holdfast/fences'
import { describe, expect, onTestFinished, test } from 'vitest'
import { refusalCode } from '../support/outcomes.ts'
import { openRaw } from '../support/sqlite-file.ts'
import { forEachEngine } from '../support/stores.ts'
import { createSuccession } from '../support/succession.ts'

describe('an HTTP fence', () => {
  forEachEngine((engine) => {
    test('answers a late holder with 409, and its effect does not happen [Z7]', async () => {
      const { resource, late, current } = await createSuccession(engine)
      const server = await serve()
      expect((await put(server.url, 'current', current)).status).toBe(200)

      const answer = await put(server.url, 'late', late)

      expect(answer.status).toBe(409)
      expect(answer.headers.get('content-type')).toBe('application/problem+json')
      expect(await answer.json()).toMatchObject({
        status: 409,
        code: 'LEASE_LOST',
        facts: { subject: resource, token: late.token, currentToken: current.token },
        next: expect.stringContaining('stop'),
      })
      expect(server.effects).toEqual(['current'])
    })
  })

  test('lets the same token act again, and a resource with any characters', async () => {
    const server = await serve()
    const grant = { resource: 'lock:größe 東京/%', token: 5 }

    const statuses = [await put(server.url, 'one', grant), await put(server.url, 'two', grant)]

    expect(statuses.map(({ status }) => status)).toEqual([200, 200])
    expect(server.effects).toEqual(['one', 'two'])
  })

  test('still refuses after the server was restarted', async () => {
    const first = await serve()
    await put(first.url, 'one', { resource: 'r', token: 9 })
    await first.close()
    const second = await serve(first.database)

    const { status } = await put(second.url, 'late', { resource: 'r', token: 8 })

    expect(status).toBe(409)
    expect(second.effects).toEqual([])
  })

  test('finishes a slow effect before that of the successor begins', async () => {
    const kept = keepInMemory()
    const order: string[] = []
    let finish = () => {}
    const slow = kept.admit(fenceHeaders({ resource: 'r', token: 5 }), async () => {
      order.push('slow begins')
      await new Promise<void>((resolve) => {
        finish = resolve
      })
      order.push('slow ends')
    })
    const successor = kept.admit(fenceHeaders({ resource: 'r', token: 6 }), () => order.push('successor'))
    const stranger = await kept.admit(fenceHeaders({ resource: 's', token: 1 }), () => order.push('stranger'))
    expect(stranger.outcome).toBe('admitted')

    finish()
    await Promise.all([slow, successor])

    expect(order).toEqual(['slow begins', 'stranger', 'slow ends', 'successor'])
  })

  test('an effect that fails is reported to its caller and delays nobody', async () => {
    const kept = keepInMemory()
    const failing = kept.admit(fenceHeaders({ resource: 'r', token: 5 }), () => {
      throw new Error('disk full')
    })
    const next = kept.admit(fenceHeaders({ resource: 'r', token: 5 }), () => 'done')

    await expect(failing).rejects.toThrow('disk full')
    expect(await next).toEqual({ outcome: 'admitted', result: 'done' })
  })

  test.each([
    ['none', {}],
    ['no token', { 'holdfast-resource': 'r' }],
    ['no resource', { 'holdfast-token': '7' }],
    ['a token that is no number', { 'holdfast-resource': 'r', 'holdfast-token': 'x' }],
    ['a token in another notation', { 'holdfast-resource': 'r', 'holdfast-token': '0x7' }],
    [
      'a token from the far future [S5d-15]',
      { 'holdfast-resource': 'r', 'holdfast-token': String(2 ** 53 - 1) },
    ],
    ['an empty token', { 'holdfast-resource': 'r', 'holdfast-token': '' }],
    ['a resource that cannot be decoded', { 'holdfast-resource': '%', 'holdfast-token': '7' }],
    ['a token too many', { 'holdfast-resource': 'r', 'holdfast-token': '7, 8' }],
  ])('answers 400 to headers with %s', async (_, headers: Record<string, string>) => {
    const server = await serve()

    const answer = await fetch(server.url, { method: 'PUT', headers, body: 'x' })

    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ code: 'INVALID' })
    expect(server.effects).toEqual([])
  })

  test.each([
    ['NaN', Number.NaN],
    ['a lower token', 4],
    ['text', '9'],
    ['a BigInt', 9n],
    ['a number that is not exact', 2 ** 53],
    ['nothing', undefined],
  ] as [string, never][])('does not take %s from raise() for permission', async (_, answer) => {
    const fence = createHttpFence({ raise: () => answer })

    const code = await refusalCode(() => fence.admit(fenceHeaders({ resource: 'r', token: 5 }), () => 1))

    expect(code).toBe('INVALID')
  })

  test.each([undefined, {}, { raise: 5 }, { raise: () => 1, load: () => 1 }])(
    'refuses the options %j',
    async (options) => {
      expect(await refusalCode(() => createHttpFence(options as HttpFenceOptions))).toBe('INVALID')
    },
  )

  test('refuses invalid headers', async () => {
    const headers = undefined as unknown as Headers

    expect(await refusalCode(() => keepInMemory().admit(headers, () => 1))).toBe('INVALID')
  })

  test('reads the headers of a fetch request too', async () => {
    const request = new Request('http://localhost/', { headers: fenceHeaders({ resource: 'r', token: 5 }) })

    const admission = await keepInMemory().admit(request.headers, (grant) => grant)

    expect(admission).toEqual({ outcome: 'admitted', result: { resource: 'r', token: 5 } })
  })
})

function keepInMemory() {
  const kept = new Map<string, number>()
  return createHttpFence({
    raise(resource, token) {
      kept.set(resource, Math.max(token, kept.get(resource) ?? 0))
      return kept.get(resource) as number
    },
  })
}

function put(url: string, body: string, grant: Grant): Promise<Response> {
  return fetch(url, { method: 'PUT', headers: fenceHeaders(grant), body })
}

/** A server whose effect is to remember the bodies it was sent. */
async function serve(path = newDatabase()) {
  const sql = createSqlFence({ dialect: 'sqlite' })
  const database = openRaw(path)
  database.exec(sql.createTable)
  const fence = createHttpFence({
    raise(resource, token) {
      const { text, values } = sql.raise({ resource, token })
      return (database.prepare(text).all(...values)[0] as { token: number }).token
    },
  })
  const effects: string[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    const admission = await fence.admit(request.headers, () => effects.push(body))
    if (admission.outcome === 'refused') response.writeHead(admission.status, admission.headers)
    response.end(admission.outcome === 'refused' ? admission.body : 'ok')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  let isClosed = false
  const close = async () => {
    if (isClosed) return
    isClosed = true
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
    database.close()
  }
  onTestFinished(close)
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/`, effects, database: path, close }
}

function newDatabase(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-fence-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return join(folder, 'tokens.db')
}
