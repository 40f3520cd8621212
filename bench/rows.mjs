/**
 * What is measured. A case measures for a while and returns one or more rows; each row has the figures of all its rounds
 * and the goal that its figure, or its ratio to the other side, is held against.
 */
import {
  atLeast,
  atMost,
  comparison,
  figure,
  jobsPerSecond,
  latency,
  locksPerSecond,
  microsecondsPerJob,
  noGoal,
  ratio,
  supply,
} from './case.mjs'
import {
  addBesidePickers,
  besideIdle,
  pickUpElsewhere,
  pickUpHere,
  rerunAfterCrash,
  rest,
  serveCrowd,
  share,
  takeTurns,
} from './fleet/measure.mjs'
import { postgresCases } from './postgres/rows.mjs'
import { p99, worst } from './statistics.mjs'

function normalAgainstPlainjob(id, what, ours) {
  return comparison({
    ...jobsPerSecond,
    id,
    what,
    goal: ratio(atLeast(1.3)),
    peer: 'plainjob',
    sides: (size) => ({
      ours: [ours[0], { ...supply(size, 30_000), durability: 'normal', ...ours[1] }],
      theirs: ['drainPlainjob', { ...supply(size, 30_000), workers: 10 }],
    }),
  })
}

function fullAgainstBullmq(id, what, goal, concurrency, ours) {
  return comparison({
    ...jobsPerSecond,
    id,
    what,
    goal: ratio(atLeast(goal)),
    peer: 'bullmq',
    sides: (size) => ({
      ours: [ours[0], { ...supply(size, 30_000), durability: 'full', ...ours[1] }],
      theirs: ['drainBullmq', { ...supply(size, 15_000), concurrency }],
    }),
  })
}

function oneCallerAgainstRaw(id, durability) {
  return comparison({
    ...microsecondsPerJob,
    id,
    what: `one caller, ${durability.toUpperCase()}: time of claim + complete, against prepared statements by hand`,
    goal: ratio(atMost(1.3)),
    sides: (size) => ({
      ours: ['drainByCallers', { ...supply(size, 10_000), durability, callers: 1 }],
      theirs: ['drainRaw', { ...supply(size, 20_000), durability }],
    }),
  })
}

const lockPeers = {
  'proper-lockfile': { sample: 'lockProperLockfile', text: 'proper-lockfile' },
  redlock: { sample: 'lockRedlock', text: 'redlock, Redis appendfsync everysec' },
}

function locksAgainst(peer, { durability, callers, goal }) {
  const { sample, text } = lockPeers[peer]
  const who = callers === 1 ? 'one caller' : `${callers} callers on a lock each, on both sides`
  return comparison({
    ...locksPerSecond,
    id: `lock-${durability}-${callers}-${peer}`,
    what: `lock acquired + released, ${durability.toUpperCase()}, ${who}, against ${text}`,
    goal: ratio(atLeast(goal)),
    peer,
    sides: ({ warmMs, warmJobs, measureMs }) => {
      const load = { callers, warmMs, warmJobs, measureMs }
      return { ours: ['lockByCallers', { ...load, durability }], theirs: [sample, load] }
    },
  })
}

/** What writing the same rows costs without anything else: none of our locks can be faster. */
function locksAgainstRaw(durability) {
  return comparison({
    ...locksPerSecond,
    id: `lock-${durability}-1-raw`,
    what: `lock acquired + released, ${durability.toUpperCase()}, one caller, against raw prepared statements`,
    goal: ratio(atLeast(0.75)),
    sides: ({ warmMs, warmJobs, measureMs }) => {
      const load = { durability, warmMs, warmJobs, measureMs }
      return { ours: ['lockByCallers', { ...load, callers: 1 }], theirs: ['lockRaw', load] }
    },
  })
}

/** Eight processes on one file: from a cold start, or each after so many jobs on its own store. */
function togetherOnOneFile(id, { warmJobs }) {
  return {
    id,
    async run({ rounds, size }) {
      const [processes, ms, items] = size.isSmoke ? [2, 150, 1000] : [8, 5000, 40_000]
      const warm = { warmJobs: size.isSmoke ? Math.min(warmJobs, 20) : warmJobs }
      const [alone, together] = [[], []]
      for (let round = 0; round < Math.min(rounds, 3); round++) {
        together.push(await share({ processes, ms, items, ...warm }))
        alone.push(await share({ processes: 1, ms, items, ...warm }))
      }
      return [
        {
          id: `${id}-share`,
          what: '8 processes on one file, FULL, one caller each: least share / greatest share',
          unit: '',
          goal: figure(atLeast(0.5), ''),
          ours: together.map((each) => each.share),
        },
        {
          id: `${id}-rate`,
          what: 'their rate together, against one process alone',
          unit: 'jobs/s',
          goal: ratio(atLeast(0.6)),
          ours: together.map((each) => each.rate),
          theirs: alone.map((each) => each.rate),
        },
        {
          id: `${id}-wait`,
          what: 'longest wait of one call of theirs',
          unit: 'ms',
          goal: figure(atMost(250), 'ms'),
          pick: worst,
          ours: together.map((each) => each.longestMs),
        },
      ]
    },
  }
}

export const cases = [
  normalAgainstPlainjob('normal-10-plainjob', 'NORMAL, 10 callers, against plainjob with 10 workers', [
    'drainByCallers',
    { callers: 10 },
  ]),
  normalAgainstPlainjob('work-normal-10-plainjob', 'the same with one worker of concurrency 10', [
    'drainByWorker',
    { concurrency: 10 },
  ]),
  comparison({
    ...jobsPerSecond,
    id: 'full-10-vs-1',
    what: 'FULL, 10 callers, against 1 caller',
    goal: ratio(atLeast(3)),
    sides: (size) => ({
      ours: ['drainByCallers', { ...supply(size, 20_000), durability: 'full', callers: 10 }],
      theirs: ['drainByCallers', { ...supply(size, 6_000), durability: 'full', callers: 1 }],
    }),
  }),
  ...[
    [10, 1.5],
    [50, 2],
  ].flatMap(([count, goal]) => [
    fullAgainstBullmq(
      `full-${count}-bullmq`,
      `FULL, ${count} callers, against BullMQ with concurrency ${count}, Redis appendfsync always`,
      goal,
      count,
      ['drainByCallers', { callers: count }],
    ),
    fullAgainstBullmq(
      `work-full-${count}-bullmq`,
      `the same with one worker of concurrency ${count}`,
      goal,
      count,
      ['drainByWorker', { concurrency: count }],
    ),
  ]),
  oneCallerAgainstRaw('one-caller-raw', 'full'),
  oneCallerAgainstRaw('one-caller-raw-normal', 'normal'),
  {
    id: 'depth',
    async run({ rounds, size, measure }) {
      const [pending, blocked] = size.isSmoke ? [200, 20] : [1_000_000, 100_000]
      const { deep, shallow } = await measure('compareDepths', {
        rounds,
        claims: size.isSmoke ? 20 : 300,
        shallow: size.isSmoke ? 50 : 1000,
        deep: { pending, finished: pending, delayed: pending, blocked },
      })
      return [
        {
          id: 'depth',
          what: 'median claim at 1 M pending, 1 M finished, 1 M delayed, 100 k blocked, against 1 k pending',
          unit: 'µs',
          goal: ratio(atMost(1.5)),
          ours: deep,
          theirs: shallow,
        },
      ]
    },
  },
  {
    id: 'growth',
    async run({ rounds, size, measure }) {
      const many = size.isSmoke ? 100 : 1_000_000
      const few = size.isSmoke ? 50 : 12_000
      const looks = await measure('compareGrowth', {
        rounds,
        times: size.isSmoke ? 1 : 20,
        shallow: { pending: few, finished: few, delayed: few, blocked: few / 10 },
        deep: { pending: many, finished: many, delayed: many / 10, blocked: many / 10 },
      })
      return Object.entries(looks).map(([name, { deep, shallow }]) => ({
        id: `growth-${name}`,
        what: `median of ${name.replaceAll('-', ' ')} with 2.2 M items and 4.2 M events, against 26 k and 50 k`,
        unit: 'µs',
        goal: ratio(atMost(1.5)),
        ours: deep,
        theirs: shallow,
      }))
    },
  },
  {
    id: 'growth-queues',
    async run({ rounds, size, measure }) {
      const load = size.isSmoke
        ? { few: 5, many: 20, items: 80, times: 1 }
        : { few: 100, many: 10_000, items: 40_000, times: 20 }
      const { large, small } = await measure('compareQueues', { rounds, ...load })
      return [
        {
          id: 'growth-queues',
          what: 'median of status with 40,000 items in 10,000 queues, against 100; a tenth of the queues fail [S5e-10]',
          unit: 'µs',
          goal: ratio(atMost(2)),
          ours: large,
          theirs: small,
        },
      ]
    },
  },
  {
    id: 'growth-many',
    async run({ rounds, size, measure }) {
      const [some, many, most] = size.isSmoke ? [150, 200, 300] : [1000, 20_000, 100_000]
      const samples = { complete: [], add: [], depend: [], open: [] }
      for (let round = 0; round < rounds; round++) {
        samples.complete.push(await measure('completeAwaited', { waiting: some }))
        samples.add.push(await measure('addMany', { added: some }))
        samples.depend.push(await measure('dependOnAnother', { waiting: many }))
        samples.open.push(await measure('openStale', { stale: most }))
      }
      const transaction = (of, goal) => ({
        unit: 'ms',
        goal: figure(atMost(goal), 'ms'),
        ours: samples[of].map(({ longestMs }) => longestMs),
      })
      return [
        {
          id: 'growth-many-complete',
          what: 'an item for which 1,000 wait is completed: longest write transaction [S5e-11]',
          ...transaction('complete', 20),
        },
        {
          id: 'growth-many-add',
          what: '1,000 items added at once, in one transaction: an exception, because it is all or none [S5e-11]',
          ...transaction('add', 40),
        },
        {
          id: 'growth-many-depend',
          what: 'a task for which 20,000 items wait gets a blocker: longest write transaction [S5e-11]',
          ...transaction('depend', 20),
        },
        {
          id: 'growth-many-open',
          what: 'open() of a store with 100,000 lapsed items [S5e-11]',
          unit: 'ms',
          goal: figure(atMost(600), 'ms'),
          ours: samples.open.map(({ ms }) => ms),
        },
      ]
    },
  },
  {
    id: 'growth-filter',
    async run({ rounds, size, measure }) {
      const tasks = size.isSmoke ? 300 : 100_000
      const { unfiltered, far, ...filtered } = await measure('compareFilters', {
        rounds,
        claims: size.isSmoke ? 2 : 200,
        tasks,
      })
      const what = {
        home: 'one that belongs on this machine or on none, as by default',
        label: 'one with a label',
        owner: 'one of an owner',
        'label-home': 'one with a label that belongs on this machine or on none',
        several: 'one with two labels, mine or nobody’s, of this machine or none',
      }
      return [
        ...Object.entries(filtered).map(([name, ours]) => ({
          id: `growth-filter-${name}`,
          what: `100,000 ready tasks: median claim of ${what[name]}, against the next of all [S5e-8]`,
          unit: 'µs',
          goal: ratio(atMost(2)),
          ours,
          theirs: unfiltered,
        })),
        {
          id: 'growth-filter-far',
          what: 'the same of one that is in two lists of 50,000, at the end of both [S5e-8]',
          unit: 'ms',
          goal: noGoal,
          ours: far,
        },
      ]
    },
  },
  {
    id: 'growth-filter-waiters',
    async run({ rounds, size }) {
      const crowd = size.isSmoke
        ? { processes: 2, tasks: 50, added: 5 }
        : { processes: 8, tasks: 12_000, added: 300 }
      const samples = []
      for (let round = 0; round < Math.min(rounds, 3); round++) samples.push(await addBesidePickers(crowd))
      return [
        {
          id: 'growth-filter-waiters',
          what: '12,000 ready tasks: addTask beside 8 processes that wait for a label, NORMAL, median [S5e-8]',
          unit: 'ms',
          goal: figure(atMost(2), 'ms'),
          ours: samples.map(({ besideMs }) => besideMs),
          theirs: samples.map(({ aloneMs }) => aloneMs),
        },
      ]
    },
  },
  {
    id: 'recovery-per-claim',
    async run({ rounds, size, measure }) {
      const { on, off } = await measure('compareRecovery', {
        rounds,
        blocks: size.isSmoke ? 2 : 40,
        claims: size.isSmoke ? 10 : 25,
      })
      return [
        {
          id: 'recovery-per-claim',
          what: 'median claim with recovery on, nothing stale, against recovery off',
          unit: 'µs',
          goal: ratio(atMost(1.05)),
          ours: on,
          theirs: off,
        },
      ]
    },
  },
  {
    id: 'recovery-1000',
    async run({ rounds, size, measure }) {
      const [some, many] = size.isSmoke ? [20, 150] : [1000, 10_000]
      const [few, full] = [[], []]
      for (let round = 0; round < rounds; round++) {
        few.push(await measure('heal', { stale: some }))
        full.push(await measure('heal', { stale: many }))
      }
      const longest = { unit: 'ms', goal: figure(atMost(20), 'ms'), pick: worst }
      return [
        {
          id: 'recovery-1000',
          what: '1,000 stale items healed, in all',
          unit: 'ms',
          goal: figure(atMost(100), 'ms'),
          ours: few.map(({ ms }) => ms),
        },
        {
          ...longest,
          id: 'recovery-1000-transaction',
          what: 'longest write transaction meanwhile',
          ours: few.map(({ longestMs }) => longestMs),
        },
        {
          ...longest,
          id: 'recovery-10000-transaction',
          what: 'longest write transaction with 10,000 stale items',
          ours: full.map(({ longestMs }) => longestMs),
        },
      ]
    },
  },
  locksAgainstRaw('normal'),
  locksAgainstRaw('full'),
  locksAgainst('proper-lockfile', { durability: 'normal', callers: 1, goal: 8 }),
  locksAgainst('redlock', { durability: 'normal', callers: 1, goal: 2 }),
  locksAgainst('proper-lockfile', { durability: 'full', callers: 1, goal: 3 }),
  locksAgainst('redlock', { durability: 'full', callers: 1, goal: 0.8 }),
  locksAgainst('proper-lockfile', { durability: 'full', callers: 50, goal: 20 }),
  {
    id: 'growth-idle-workers',
    async run({ rounds, size }) {
      const [idle, ms] = size.isSmoke ? [2, 150] : [40, 5000]
      const [alone, other, same] = [[], [], []]
      for (let round = 0; round < Math.min(rounds, 3); round++) {
        alone.push(await besideIdle({ idle: 0, ms }))
        other.push(await besideIdle({ idle, ms }))
        same.push(await besideIdle({ idle, isSameQueue: true, ms }))
      }
      const unit = 'cycles/s'
      return [
        {
          id: 'growth-idle-workers-other',
          what: 'add + claim + complete in one process beside 40 idle workers of other queues, against alone [S5e-7]',
          unit,
          goal: ratio(atLeast(0.8)),
          ours: other,
          theirs: alone,
        },
        {
          id: 'growth-idle-workers-same',
          what: 'the same beside 40 idle workers of the same queue [S5e-7]',
          unit,
          goal: ratio(atLeast(0.5)),
          ours: same,
          theirs: alone,
        },
      ]
    },
  },
  {
    id: 'growth-waiters',
    async run({ rounds, size }) {
      const crowd = size.isSmoke ? { processes: 2, waiters: 20 } : { processes: 10, waiters: 1000 }
      const samples = []
      for (let round = 0; round < Math.min(rounds, 3); round++) samples.push(await serveCrowd(crowd))
      return [
        {
          id: 'growth-waiters',
          what: '1,000 waiters for one lock in 10 processes, NORMAL: time of a hand-over',
          unit: 'ms',
          goal: figure(atMost(50), 'ms'),
          ours: samples.map(({ handOverMs }) => handOverMs),
        },
        {
          id: 'growth-waiters-lost',
          what: 'places in line that were lost meanwhile',
          unit: '',
          goal: figure(atMost(0), ''),
          ours: samples.map(({ lost }) => lost),
        },
        {
          id: 'growth-waiters-last',
          what: 'time until the last is served when all others leave at once',
          unit: 'ms',
          goal: figure(atMost(1000), 'ms'),
          ours: samples.map(({ lastMs }) => lastMs),
        },
      ]
    },
  },
  {
    id: 'growth-idle-fleet',
    async run({ rounds, size }) {
      const load = size.isSmoke
        ? { processes: 2, settleMs: 100, ms: 500 }
        : { processes: 40, settleMs: 60_000, ms: 30_000 }
      const samples = []
      for (let round = 0; round < Math.min(rounds, 3); round++) samples.push(await rest(load))
      return [
        {
          id: 'growth-idle-fleet',
          what: '40 idle workers on one store: processor time of each, in percent of a core',
          unit: '%',
          goal: figure(atMost(0.3), '%'),
          ours: samples.map(({ processorPercent }) => processorPercent),
        },
      ]
    },
  },
  {
    id: 'eight-waiters',
    async run({ rounds, size }) {
      const [processes, ms] = size.isSmoke ? [2, 150] : [8, 5000]
      const samples = []
      for (let round = 0; round < Math.min(rounds, 3); round++)
        samples.push(await takeTurns({ processes, ms }))
      return [
        {
          id: 'eight-waiters-share',
          what: '8 processes in line for one lock, FULL, each holds it for 1 ms: least share / greatest share',
          unit: '',
          goal: figure(atLeast(0.8), ''),
          ours: samples.map(({ share }) => share),
        },
        {
          id: 'eight-waiters-rate',
          what: 'how often the lock changes hands meanwhile',
          unit: 'locks/s',
          goal: noGoal,
          ours: samples.map(({ rate }) => rate),
        },
      ]
    },
  },
  {
    id: 'messages-10000',
    async run({ rounds, size, measure }) {
      const due = size.isSmoke ? 150 : 10_000
      const samples = []
      for (let round = 0; round < rounds; round++) samples.push(await measure('redeliver', { due }))
      return [
        {
          id: 'messages-10000',
          what: '10,000 due messages: claimed under one lease each, sent to an inbox, recorded; in all, FULL [A8]',
          unit: 'ms',
          goal: figure(atMost(10_000), 'ms'),
          ours: samples.map(({ ms }) => ms),
        },
        {
          id: 'messages-10000-transaction',
          what: 'longest write transaction meanwhile',
          unit: 'ms',
          goal: figure(atMost(20), 'ms'),
          pick: worst,
          ours: samples.map(({ longestMs }) => longestMs),
        },
      ]
    },
  },
  {
    id: 'reservations-5000-transaction',
    async run({ rounds, size, measure }) {
      const samples = []
      for (let round = 0; round < rounds; round++)
        samples.push(await measure('reserveAtTheLimit', { reserved: size.isSmoke ? 200 : 5000 }))
      return [
        {
          id: 'reservations-5000-transaction',
          what: '50 patterns against 4,950 reserved ones: longest write transaction of a process that sees them first [L15]',
          unit: 'ms',
          goal: figure(atMost(20), 'ms'),
          pick: worst,
          ours: samples.map(({ longestMs }) => longestMs),
        },
      ]
    },
  },
  togetherOnOneFile('eight-processes', { warmJobs: 0 }),
  togetherOnOneFile('eight-processes-warm', { warmJobs: 1500 }),
  latency(
    'crash-to-rerun',
    'kill -9 of a holder until its item runs in another process, p99 of 30',
    1000,
    rerunAfterCrash,
    30,
  ),
  latency(
    'idle-pickup-other-process',
    'add until an idle worker in another process runs it, p99 of 100',
    25,
    pickUpElsewhere,
    100,
  ),
  latency(
    'idle-pickup-same-process',
    'add until an idle worker in the same process runs it, p99 of 100',
    5,
    pickUpHere,
    100,
  ),
  {
    id: 'start',
    async run({ rounds, size, measure }) {
      const { bare, version, status } = await measure('startCommands', {
        times: size.isSmoke ? 1 : rounds * 10,
      })
      const against = (id, what, bound, ours) => ({
        id,
        what: `${what}, from start to end, against \`node -e 0\``,
        unit: 'ms',
        goal: ratio(atMost(bound)),
        ours,
        theirs: bare,
      })
      return [
        against('start-version', '`holdfast --version`', 1.5, version),
        against('start-status', '`holdfast status` with 1,000 items', 3, status),
      ]
    },
  },
  {
    id: 'fifty-commands',
    async run({ size, measure }) {
      const { times } = await measure('manyCommands', { commands: size.isSmoke ? 4 : 50 })
      return [
        {
          id: 'fifty-commands',
          what: '50 processes of the command line started at once, half add, half claim: from start to end, p99',
          unit: 'ms',
          goal: noGoal,
          pick: p99,
          ours: times,
        },
      ]
    },
  },
  ...postgresCases,
]
