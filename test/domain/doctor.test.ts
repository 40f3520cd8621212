import { describe, expect, test } from 'vitest'
import { type DoctorFacts, examine, maxVainWaits } from '../../src/domain/doctor.ts'
import { isUnhealthy, type StoreFacts } from '../../src/domain/store-check.ts'

const mebibyte = 1024 * 1024
const store: StoreFacts = {
  engine: 'sqlite',
  location: '/store.db',
  durability: 'full',
  server: null,
  wallAt: 0,
  schemaVersion: 5,
  engineVersion: '3.53.0',
  version: '1.0.0',
  node: '24.0.0',
  storeBytes: mebibyte,
  logBytes: 0,
  freeBytes: 500 * mebibyte,
  warnings: [],
  recoveryError: null,
}
const sound: DoctorFacts = {
  store,
  leaseClockAheadMs: 0,
  wallAheadMs: 0,
  processes: [],
  lapsed: 0,
  orphaned: 0,
  neglected: [],
  stranded: { tasks: [], more: false },
  transactions: [],
  vainWaits: [],
  lockBlockers: [],
  commitLosses: [],
  wall: 0,
  alerts: [],
}

function findings(facts: Partial<DoctorFacts>, ofStore: Partial<StoreFacts> = {}) {
  return examine({ ...sound, ...facts, store: { ...store, ...ofStore } })
}
const wrong = (...given: Parameters<typeof findings>) =>
  findings(...given).filter(({ level }) => level !== 'ok')

describe('a sound store', () => {
  test('has only good findings, one per check', () => {
    const found = findings({})

    expect(wrong({})).toEqual([])
    expect(found.map(({ check }) => check)).toEqual([
      'store',
      'version',
      'schema',
      'clock',
      'disk',
      'leases',
      'namespaces',
      'processes',
      'recovery',
    ])
    expect(isUnhealthy(found)).toBe(false)
  })

  test.each([
    [1000, '1 KiB'],
    [mebibyte, '1 MiB'],
    [3 * 1024 * mebibyte, '3 GiB'],
  ])('of %i bytes is shown as %s', (storeBytes, words) => {
    const disk = findings({}, { storeBytes }).find(({ check }) => check === 'disk')

    expect(disk?.what).toMatch(new RegExp(`^${words}, log 0 KiB`))
  })

  test.each(['storeBytes', 'logBytes', 'freeBytes'])('without %s has no disk to check', (size) => {
    expect(findings({}, { [size]: null }).map(({ check }) => check)).not.toContain('disk')
  })

  test.each([
    ['', 'a failover may lose the last ones'],
    ['one', 'and on standbys (one, synchronous_commit on)'],
  ])('on a server with the standbys "%s" says what a failover may lose', (synchronousStandbys, words) => {
    const server = { fsync: true, synchronousCommit: 'on', synchronousStandbys, formerStandbys: null }

    const [found] = findings({}, { engine: 'postgres', server })

    expect(found).toMatchObject({ check: 'store', level: 'ok', what: expect.stringContaining(words) })
  })

  test('on a server uses the server’s clock', () => {
    const clock = findings({ leaseClockAheadMs: 0 }, { engine: 'postgres' }).find(
      ({ check }) => check === 'clock',
    )

    expect(clock).toMatchObject({ level: 'ok', what: expect.stringContaining('server clock') })
  })

  test('on a server is checked for other transactions', () => {
    const found = findings({}, { engine: 'postgres' }).find(({ check }) => check === 'transactions')

    expect(found).toMatchObject({ level: 'ok', remedy: null })
  })

  test('on a machine that slept says so', () => {
    const clock = findings({ leaseClockAheadMs: -7_200_000 }).find(({ check }) => check === 'clock')

    expect(clock).toMatchObject({ level: 'ok', what: expect.stringContaining('slept for 2h') })
  })
})

describe('other namespaces', () => {
  const names = (count: number, what: { isHealingDue: boolean; isSendingDue: boolean }) =>
    Array.from({ length: count }, (_, index) => ({ namespace: `n${index}`, ...what }))

  test('are named if something lapsed there and was not reclaimed [S5c-38]', () => {
    expect(wrong({ neglected: names(1, { isHealingDue: true, isSendingDue: false }) })).toMatchObject([
      { check: 'namespaces', level: 'warning', what: expect.stringContaining('in namespace "n0",') },
    ])
  })

  test('are named if messages wait with no process to send them, the first five by name [S5c-38]', () => {
    expect(wrong({ neglected: names(7, { isHealingDue: false, isSendingDue: true }) })).toMatchObject([
      {
        check: 'namespaces',
        level: 'warning',
        what: expect.stringContaining('in namespaces "n0", "n1", "n2", "n3", "n4", 2 more,'),
      },
    ])
  })
})

describe('what is wrong', () => {
  test.each([
    ['less durability', { durability: 'normal' } as const, { check: 'store', level: 'notice' }],
    ['little room', { freeBytes: 99 * mebibyte }, { check: 'disk', level: 'warning' }],
    [
      'no room',
      { freeBytes: 9 * mebibyte },
      { check: 'disk', level: 'error', what: expect.stringMatching(/^\d.*, only 9 MiB free$/) },
    ],
    ['a long log', { logBytes: 129 * mebibyte }, { check: 'log', level: 'warning' }],
    ['healing that failed', { recoveryError: 'disk full' }, { check: 'recovery', level: 'error' }],
  ])('in the store: %s', (_, ofStore, finding) => {
    expect(wrong({}, ofStore)).toMatchObject([{ ...finding, remedy: expect.any(String) }])
  })

  test('a server that does not sync to its disk makes it unhealthy', () => {
    const server = { fsync: false, synchronousCommit: 'on', synchronousStandbys: '', formerStandbys: null }
    const found = wrong({}, { engine: 'postgres', durability: 'normal', server })

    expect(found).toMatchObject([{ check: 'store', level: 'error', remedy: expect.any(String) }])
    expect(isUnhealthy(found)).toBe(true)
  })

  test('[S5b-20] a server whose commits waited for standbys before, and now for none', () => {
    const server = {
      fsync: true,
      synchronousCommit: 'on',
      synchronousStandbys: '',
      formerStandbys: 'ANY 1 (a, b)',
    }
    const found = wrong({}, { engine: 'postgres', server })

    expect(found).toMatchObject([
      { check: 'store', level: 'warning', what: expect.stringContaining('ANY 1 (a, b)') },
    ])
  })

  test.each([
    [120_000, '2m ahead of'],
    [-120_000, '2m behind'],
  ])('a clock that differs from the server by %i ms', (wallAheadMs, words) => {
    expect(wrong({ wallAheadMs }, { engine: 'postgres' })).toMatchObject([
      { check: 'clock', level: 'notice', what: expect.stringContaining(words) },
    ])
  })

  test('a date that was set back', () => {
    expect(wrong({ leaseClockAheadMs: 61_000 })).toMatchObject([{ check: 'clock', level: 'notice' }])
  })

  test('leases that a recovery would free can be fixed', () => {
    expect(wrong({ lapsed: 2, orphaned: 1 })).toMatchObject([
      { check: 'leases', level: 'warning', isFixable: true },
    ])
  })

  test('a stopped process is named', () => {
    const process = { instance: 'i', liveness: 'alive', evidence: 'seen', agent: 'ada', pid: 4711 } as const

    expect(wrong({ processes: [process, { ...process, isStopped: true }] })).toMatchObject([
      { check: 'stopped', what: 'process 4711 of ada is stopped' },
    ])
  })

  test.each([
    [{}, 'process 4711 (psql) of ada has been open for 1m, idle in transaction: newer events', '(4711)'],
    [{ hasWritten: false }, 'idle in transaction: rows replaced since then', '(4711)'],
    [{ program: '' }, 'process 4711 of ada', '(4711)'],
    [
      { pid: null, program: "o'neil" },
      'prepared transaction "o\'neil" of ada has been open for 1m: ',
      "'o''neil'",
    ],
  ])('a transaction that is open for long is named, with what ends it: %o', (told, words, remedy) => {
    const long = {
      pid: 4711,
      role: 'ada',
      program: 'psql',
      state: 'idle in transaction',
      openForMs: 60_000,
      hasWritten: true,
    }

    expect(wrong({ transactions: [{ ...long, ...told }] }, { engine: 'postgres' })).toMatchObject([
      {
        check: 'transactions',
        level: 'warning',
        what: expect.stringContaining(words),
        remedy: expect.stringContaining(remedy),
      },
    ])
  })

  test('alerts are findings, unless a check says the same', () => {
    const alert = (code: 'quarantine' | 'stale_leases') =>
      ({ code, level: 'warning', what: code, next: 'look' }) as const

    expect(wrong({ alerts: [alert('quarantine'), alert('stale_leases')] })).toMatchObject([
      { check: 'quarantine', level: 'warning', remedy: 'look' },
    ])
  })

  test('only an error makes a store unhealthy', () => {
    expect(isUnhealthy(findings({ lapsed: 1 }))).toBe(false)
    expect(isUnhealthy(findings({}, { recoveryError: 'disk full' }))).toBe(true)
  })
})

describe('commits that the server lost', () => {
  const day = 24 * 3_600_000
  const at = 100 * day
  const loss = { at, agent: 'ada', isExpected: false }

  test('are reported for a week, with how many and when last [S5b-15]', () => {
    const commitLosses = [{ ...loss, at: at - 8 * day }, { ...loss, at: at - day, agent: 'bob' }, loss]

    const [found, ...others] = wrong({ commitLosses, wall: at + 60_000 })

    expect(others).toEqual([])
    expect(found).toMatchObject({ check: 'commits', level: 'warning' })
    expect(found?.what).toContain('2 reports in the last 7d, the last 1m ago by ada')
    expect(wrong({ commitLosses, wall: at + 8 * day })).toEqual([])
  })

  test('are a notice with normal durability [S5b-15]', () => {
    const commitLosses = [{ ...loss, isExpected: true }]

    expect(wrong({ commitLosses, wall: at })).toMatchObject([{ check: 'commits', level: 'notice' }])
    expect(wrong({ commitLosses: [...commitLosses, loss], wall: at })).toMatchObject([{ level: 'warning' }])
  })
})

describe('items that wait for a failed one', () => {
  const wait = { item: 'child', queue: 'q', blocker: 'parent', state: 'failed' }

  test('are reported with what they wait for and what to do [S5c-50]', () => {
    const [found, ...others] = wrong({ vainWaits: [wait] })

    expect(others).toEqual([])
    expect(found).toMatchObject({ check: 'waiting', level: 'warning', isFixable: false })
    expect(found?.what).toBe(
      '1 item waits for something that failed or is gone: child of queue q for parent (failed)',
    )
    expect(found?.remedy).toContain('retry or resubmit')
  })

  test('are each counted once, and only some are named [S5c-50]', () => {
    const gone = { ...wait, blocker: 'gone', state: null }
    const more = [1, 2, 3].map((number) => ({ ...wait, item: `child-${number}` }))

    const [found] = wrong({ vainWaits: [wait, gone, ...more] })

    expect(found?.what).toMatch(/^4 items wait .*child of queue q for gone \(gone\), child-1 of queue q/)
    expect(found?.what).not.toContain('child-2')
  })

  test('are not counted beyond a bound [S5c-50]', () => {
    const vainWaits = Array.from({ length: maxVainWaits }, (_, number) => ({ ...wait, item: `${number}` }))

    expect(wrong({ vainWaits })[0]?.what).toMatch(/^at least 1000 items wait/)
  })
})
const blocker = { pid: 7, role: 'mallory', program: 'psql', usesStore: false, waiting: 2, waitedMs: 10 }

test('a role that does not use the store but holds its locks is named at once [S5d-10]', () => {
  expect(wrong({ lockBlockers: [blocker] }, { engine: 'postgres' })).toEqual([
    {
      check: 'locks',
      level: 'error',
      what: 'server process 7 (psql) of mallory holds an advisory lock of this store; 2 sessions waiting for it',
      remedy: expect.stringContaining('select pg_terminate_backend(7)'),
      isFixable: false,
    },
  ])
})

test('one whose locks nobody waits for at the moment is named too, but not as a fault [S5d-10]', () => {
  const [found] = wrong({ lockBlockers: [{ ...blocker, waiting: 0, waitedMs: 0 }] }, { engine: 'postgres' })

  expect(found).toMatchObject({ check: 'locks', level: 'notice' })
  expect(found?.what).toContain('of mallory, which does not use this store, holds advisory locks')
  expect(found?.remedy).toContain('if commands fail as BUSY')
})

test.each([
  [4_000, 0],
  [6_000, 1],
])(
  'one that uses the store is named when it has kept others waiting for long: %i ms [S5d-10]',
  (waitedMs, count) => {
    const own = { ...blocker, program: '', usesStore: true, waitedMs }

    expect(wrong({ lockBlockers: [own] }, { engine: 'postgres' })).toHaveLength(count)
  },
)

test.each([
  [false, 'T-1 Fix it (on workshop), Sweep (on attic)'],
  [true, 'T-1 Fix it (on workshop), Sweep (on attic) and more'],
])('ready tasks whose machine has no running process are named; more of them: %s [S5c-48]', (more, named) => {
  const tasks = [
    { title: 'T-1 Fix it', host: 'workshop' },
    { title: 'Sweep', host: 'attic' },
  ]

  const [found] = wrong({ stranded: { tasks, more } })

  expect(found).toMatchObject({ check: 'hosts', level: 'notice', isFixable: false })
  expect(found?.what).toMatch(new RegExp(`: ${named.replace(/[()]/g, '\\$&')}$`))
})
