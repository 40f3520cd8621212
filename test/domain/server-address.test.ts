/** What a URL of a PostgreSQL store says, and that its passwords are never said again. */
import { expect, test } from 'vitest'
import { parseAddress } from '../../src/engines/postgres/address.ts'
import { HoldfastError } from '../../src/errors.ts'

const direct = encodeURIComponent('postgres://app:hidden@db-1/production')

test.each([
  ['several hosts', 'postgres://app@db-1:6432,db-2/p', ['db-1:6432', 'db-2:5432']],
  ['addresses', 'postgres://app@[::1]:6432,[::ffff:10.0.0.1]/p', ['::1:6432', '::ffff:10.0.0.1:5432']],
  ['a socket', 'postgres://app@%2Fvar%2Frun%2Fpostgresql:6432/p', ['/var/run/postgresql:6432']],
  ['nothing', 'postgres:///p', ['localhost:5432']],
])('%s may be the server’s address', (_what, url, expected) => {
  expect(parseAddress(url).hosts.map(({ host, port }) => `${host}:${port}`)).toEqual(expected)
})

test.each([
  ['p%40ss%2Fword%25', 'p@ss/word%'],
  ['p@ss', 'p@ss'],
  ['a:b?c#d', 'a:b?c#d'],
])('a password written %s is read as %s, and not shown', (written, password) => {
  const url = `postgres://app:${written}@db-1/production?schema=jobs`

  expect(parseAddress(url)).toMatchObject({
    user: 'app',
    password,
    hosts: [{ host: 'db-1', port: 5432 }],
    database: 'production',
    shown: 'postgres://app@db-1/production?schema=jobs',
  })
})

test('the password of the URL to listen at is not shown either', () => {
  const { shown, wakeUrl } = parseAddress(`postgres://app:hidden@pooler/p?wake=${direct}&prepare=false`)

  expect(wakeUrl).toBe('postgres://app:hidden@db-1/production')
  expect(shown).toBe('postgres://app@pooler/p?wake=…&prepare=false')
})

test.each([
  ['a slash in the password', 'postgres://app:hid/den@db-1/p'],
  ['a slash in a password that begins like a port', 'postgres://app:1/hidden@db-1/p'],
  ['a stray % in the password', 'postgres://app:hidden%@db-1/p'],
  ['a stray % in the host', 'postgres://app:hidden@db%1/p'],
  ['an unknown parameter', `postgres://app:hidden@db-1/p?wake=${direct}&wakes=no`],
  ['a wake that is no URL', 'postgres://app:hidden@db-1/p?wake=false'],
  ['a wake that cannot be read', `postgres://app:hidden@db-1/p?wake=${direct}%3Fshema=jobs`],
])('%s is refused as INVALID, without showing the password', (_what, url) => {
  const error = errorOf(() => parseAddress(url))

  expect(error).toMatchObject({ code: 'INVALID' })
  expect(JSON.stringify([error, (error as Error).message])).not.toMatch(/hid|den/)
})

function errorOf(act: () => unknown): unknown {
  try {
    act()
  } catch (error) {
    return error instanceof HoldfastError ? error : String(error)
  }
  return 'nothing was refused'
}
