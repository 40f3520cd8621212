/** What of a store's URL may be shown. */
import { expect, test } from 'vitest'
import {
  hasPassword,
  serverScheme,
  withOwnCredentials,
  withoutCredentials,
  withoutPassword,
} from '../../src/domain/store-url.ts'

test.each([
  ['a path', '/var/store.db', '/var/store.db'],
  ['no password', 'postgres://app@db/production', 'postgres://app@db/production'],
  ['a password', 'postgres://app:secret@db:5432/production', 'postgres://app@db:5432/production'],
  [
    'one with an @ and a slash in it',
    'postgres://app:se@cr/et@db/production',
    'postgres://app@db/production',
  ],
  ['one with a line break in it', 'postgres://app:se\ncret@db/production', 'postgres://app@db/production'],
  ['a URL in quotes', '"postgres://app:secret@db/production"', '…@db/production"'],
  ['a URL behind a space', ' postgres://app:secret@db/production', '…@db/production'],
  ['a URL without its colon', 'postgresql//app:secret@db/production', '…@db/production'],
  ['a URL of another kind', 'jdbc:postgresql://db/x?password=secret', 'jdbc:postgresql://db/x?password=…'],
  ['a URL behind its name', 'url=postgres://app:secret@db/production', '…@db/production'],
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
  ['a scheme in capitals', 'Postgres://app:secret@db/x', 'Postgres://app@db/x'],
  ['a slash too few', 'postgres:/app:secret@db/x', 'postgres:/app@db/x'],
  ['no slash', 'postgres:app:secret@db/x', 'postgres:app@db/x'],
  ['another server', 'MySQL:/app:secret@db/x', 'MySQL:/app@db/x'],
  [
    'one as a parameter',
    'postgres://app@db/x?schema=a&password=secret',
    'postgres://app@db/x?schema=a&password=…',
  ],
  ['one for a key', 'postgres://app@db/x?sslpassword=a=b', 'postgres://app@db/x?sslpassword=…'],
  ['a piece of one', 'postgres://app@db/x?sec?ret&auth=url', 'postgres://app@db/x?…&auth=url'],
])('%s', (_, url, shown) => {
  expect(withoutPassword(url, '')).toBe(shown)
})

test('a server is told from a file even if its URL is misspelled [S5d-14]', () => {
  expect(
    ['postgres://db', 'POSTGRES:db', 'postgresql:/db', 'mysql:/db', 'HTTP://db'].map(serverScheme),
  ).toEqual(['postgres', 'postgres', 'postgresql', 'mysql', 'http'])
  expect(
    [
      'store.db',
      '/a/b:c',
      'sqlite:/a',
      'sqlite::memory:',
      ':memory:',
      'C:/a',
      'notes:2026',
      './postgres:/x',
      './postgres//x',
      'data/postgres//x',
      '/srv/postgres//x',
      'sqlite:postgres//x',
    ].map(serverScheme),
  ).toEqual(Array(12).fill(null))
})

test.each([
  ['postgres://app:secret@db:1,db:2/x?schema=a', 'postgres://app@db:1,db:2/x?schema=a'],
  ['postgres://app@db/x?wake=off', 'postgres://app@db/x?wake=off'],
  ['/a:b@c', '/a:b@c'],
  [
    'postgres://app@pool/x?wake=postgres%3A%2F%2Fapp%3Asecret%40db%2Fx&schema=a',
    'postgres://app@pool/x?wake=postgres%3A%2F%2Fapp%40db%2Fx&schema=a',
  ],
])('%s can be handed on without its passwords [S5d-14]', (url, handedOn) => {
  expect(withoutCredentials(url)).toBe(handedOn)
})

test.each([
  ['postgres://app:secret@db/x', true],
  ['postgres://app@db/x', false],
  ['/var/store.db', false],
  ['postgres://app@db/x?wake=postgres://app@db2/x', false],
  ['postgres://app@db/x?wake=postgres%3A%2F%2Fapp%3Asecret%40db2%2Fx', false],
])('whether %s has a password for the server does not depend on its listen URL [S5d-14]', (url, has) => {
  expect(hasPassword(url)).toBe(has)
})

test('nothing is passed on from a listen URL that cannot be decoded [S5d-14]', () => {
  expect(withoutCredentials('postgres://app@db/x?wake=%zzsecret&schema=s')).toBe(
    'postgres://app@db/x?wake=&schema=s',
  )
})

test('something may stand in its place', () => {
  expect(withoutPassword('postgres://app:secret@db/x', ':…')).toBe('postgres://app:…@db/x')
})

test('a server named by a stranger is contacted with nothing but its URL; a path stays as it is', () => {
  expect(withOwnCredentials('postgres://db/fleet')).toBe('postgres://db/fleet?auth=url')
  expect(withOwnCredentials('postgres://db/fleet?schema=a')).toBe('postgres://db/fleet?schema=a&auth=url')
  expect(withOwnCredentials('/folder/store.db')).toBe('/folder/store.db')
})
