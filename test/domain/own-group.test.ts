import { expect, test } from 'vitest'
import { isGroupOfOne } from '../../src/host/own-group.ts'

const users =
  'root:x:0:0::/root:/bin/sh\nalice:x:1000:1001::/home/alice:/bin/sh\nbob:x:1002:100::/home/bob:/bin/sh\n'

test.each([
  ['named after the user, without members', 'alice:x:1001:', true],
  ['whose only member is the user', 'alice:x:1001:alice', true],
  ['with another member', 'alice:x:1001:alice,bob', false],
  ['that all users share', 'users:x:1001:', false],
  ['with a second name', 'alice:x:1001:\nstaff:x:1001:bob', false],
  ['that is not in the file', 'root:x:0:\n# alice:x:1001:', false],
])('a group %s [S5d-8]', (_, groups, isPrivate) => {
  expect(isGroupOfOne(1001, { user: 'alice', groups, users })).toBe(isPrivate)
})

test('a group that is another user’s primary group is shared [S5d-8]', () => {
  const shared = `${users}carol:x:1003:1001::/home/carol:/bin/sh\n`

  expect(isGroupOfOne(1001, { user: 'alice', groups: 'alice:x:1001:', users: shared })).toBe(false)
})
