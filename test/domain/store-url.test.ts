/** What of a store's URL may be shown. */
import { expect, test } from 'vitest'
import { withOwnCredentials, withoutPassword } from '../../src/domain/store-url.ts'

test.each([
  ['a path', '/var/store.db', '/var/store.db'],
  ['no password', 'postgres://app@db/production', 'postgres://app@db/production'],
  ['a password', 'postgres://app:secret@db:5432/production', 'postgres://app@db:5432/production'],
  [
    'one with an @ and a slash in it',
    'postgres://app:se@cr/et@db/production',
    'postgres://app@db/production',
  ],
  [
    'one in the URL to listen on',
    'postgres://app@pool/x?wake=postgres%3A%2F%2Fapp%3Asecret%40db',
    'postgres://app@pool/x?wake=…',
  ],
  [
    'nobody to listen to',
    'postgres://app@pool/x?wake=off&schema=a',
    'postgres://app@pool/x?wake=off&schema=a',
  ],
])('%s', (_, url, shown) => {
  expect(withoutPassword(url, '')).toBe(shown)
})

test('something may stand in its place', () => {
  expect(withoutPassword('postgres://app:secret@db/x', ':…')).toBe('postgres://app:…@db/x')
})

test('a server named by a stranger is asked with what its URL says and nothing else; a path stays as it is', () => {
  expect(withOwnCredentials('postgres://db/fleet')).toBe('postgres://db/fleet?auth=url')
  expect(withOwnCredentials('postgres://db/fleet?schema=a')).toBe('postgres://db/fleet?schema=a&auth=url')
  expect(withOwnCredentials('/folder/store.db')).toBe('/folder/store.db')
})
