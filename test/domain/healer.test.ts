import { expect, test } from 'vitest'
import { isHealerFor, isHealing } from '../../src/domain/healer.ts'
import { startInstance } from '../../src/domain/instance.ts'

const process = { id: 'i', bootId: 'b', pidNamespace: 'n', hostName: 'h', pid: 1, startTime: null }
const started = startInstance(process, { agent: 'a', registeredBy: null, seenAt: 1_000 }, 5_000)
const healing = { ...started, seenAt: 1_000, beatAt: 100_000, sweptAt: 99_000 }

test.each([
  ['beat and swept lately', {}, true],
  ['has just not beaten for too long', { seenAt: 1_000 - 1 }, false],
  ['swept a minute before its last beat', { sweptAt: 40_000 }, true],
  ['had stopped sweeping when it last beat', { sweptAt: 39_999 }, false],
  ['never sweeps', { sweptAt: null }, false],
  ['does not beat', { seenAt: null }, false],
  ['has ended', { endedAt: 100_000 }, false],
])('a process that %s heals: %o %s [S5c-38]', (_, change, expected) => {
  expect(isHealing({ ...healing, ...change }, 91_000)).toBe(expected)
})

test.each([
  [[], true],
  [['me', 'other'], true],
  [['other', 'me'], false],
  [['other'], false],
])('among those that heal, %j, it is up to me: %s [S5c-38]', (running, expected) => {
  expect(isHealerFor('me', running)).toBe(expected)
})
