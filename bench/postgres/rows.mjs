/** What is measured on PostgreSQL: ours and theirs on one server, each sample in a database of its own. */
import { atLeast, atMost, comparison, figure, jobsPerSecond, latency, ratio, supply } from '../case.mjs'
import { pickUpElsewhere, rerunAfterCrash, rest } from '../fleet/measure.mjs'

const leaseMs = 5_000

/** A case that needs the server; `make` is told its URL. */
function onServer(id, make) {
  return {
    id,
    async run(tools) {
      return make(await tools.postgres.url()).run(tools)
    },
  }
}

/**
 * `rates` are the most that each side may need items for, jobs/s. Both sides are warm when `warmJobs` are done: a worker
 * runs for days, and ours, with more code to compile, is three times as fast after 10,000 jobs as in the first 1,000.
 */
function against(peer, { id, what, goal, ours: [name, load], theirs, rates, warmJobs = 10_000 }) {
  return onServer(id, (server) =>
    comparison({
      ...jobsPerSecond,
      id,
      what,
      goal: ratio(atLeast(goal)),
      peer,
      sides(whole) {
        const size = whole.isSmoke ? whole : { ...whole, warmJobs }
        return {
          ours: [name, { ...supply(size, rates.ours), server, durability: 'full', ...load }],
          theirs: [drains[peer], { ...supply(size, rates.theirs), server, ...theirs }],
        }
      },
    }),
  )
}

const drains = { 'graphile-worker': 'drainGraphile', 'bullmq-postgres': 'drainBullmqPostgres' }

const depth = onServer('postgres-depth', (server) => ({
  async run({ rounds, size, measure }) {
    const pending = size.isSmoke ? 200 : 1_000_000
    const figures = await measure('compareDepthsOnPostgres', {
      server,
      rounds,
      claims: size.isSmoke ? 20 : 200,
      shallow: size.isSmoke ? 50 : 1000,
      deep: { pending, finished: pending, delayed: pending },
      finishedBehind: size.isSmoke ? 50 : 20_000,
    })
    return [
      {
        id: 'postgres-depth',
        what: 'median claim at 1 M pending, 1 M finished, 1 M delayed, against 1 k pending',
        unit: 'µs',
        goal: ratio(atMost(1.5)),
        ours: figures.deep,
        theirs: figures.shallow,
      },
      {
        id: 'postgres-depth-snapshot',
        what: 'the same behind a snapshot that was open while 20,000 items were finished',
        unit: 'µs',
        goal: ratio(atMost(2)),
        ours: figures.behind,
        theirs: figures.shallowBeside,
      },
    ]
  },
}))

/** The same against statements by hand that leave the same rows: no store of this shape can be faster on one connection. */
function floor({ id, batch, together, concurrency, localQueue, goal, warmJobs }) {
  const how = together
    ? 'completed and claimed in one transaction'
    : 'claimed in one transaction, completed in another'
  return against('graphile-worker', {
    id: `postgres-floor-${id}`,
    what: `PostgreSQL, raw statements, ${batch} at a time, ${how}, against graphile-worker with concurrency ${concurrency}${localQueue ? ` and localQueue ${localQueue}` : ''}`,
    goal,
    ours: ['drainRawOnPostgres', { batch, together }],
    theirs: { concurrency, ...(localQueue ? { localQueue } : {}) },
    rates: { ours: Math.min(12_000, batch * 1_500), theirs: localQueue ? 25_000 : 4_000 },
    warmJobs,
  })
}

export const postgresCases = [
  against('graphile-worker', {
    id: 'postgres-work-1-graphile',
    what: 'PostgreSQL, a worker of concurrency 1, against graphile-worker',
    goal: 0.7,
    ours: ['drainByWorker', { concurrency: 1 }],
    theirs: { concurrency: 1 },
    rates: { ours: 2_000, theirs: 2_000 },
    warmJobs: 4_000,
  }),
  against('graphile-worker', {
    id: 'postgres-work-10-graphile',
    what: 'PostgreSQL, a worker of concurrency 10, against graphile-worker',
    goal: 2,
    ours: ['drainByWorker', { concurrency: 10 }],
    theirs: { concurrency: 10 },
    rates: { ours: 8_000, theirs: 4_000 },
  }),
  against('graphile-worker', {
    id: 'postgres-10-graphile',
    what: 'PostgreSQL, 10 callers, against graphile-worker with concurrency 10',
    goal: 1.2,
    ours: ['drainByCallers', { callers: 10 }],
    theirs: { concurrency: 10 },
    rates: { ours: 6_000, theirs: 4_000 },
  }),
  against('graphile-worker', {
    id: 'postgres-50-graphile',
    what: 'PostgreSQL, 50 callers, against graphile-worker with concurrency 50',
    goal: 3,
    ours: ['drainByCallers', { callers: 50 }],
    theirs: { concurrency: 50 },
    rates: { ours: 10_000, theirs: 4_000 },
  }),
  against('bullmq-postgres', {
    id: 'postgres-50-bullmq',
    what: 'PostgreSQL, 50 callers, against BullMQ on PostgreSQL with concurrency 50',
    goal: 4,
    ours: ['drainByCallers', { callers: 50 }],
    theirs: { concurrency: 50 },
    rates: { ours: 10_000, theirs: 4_000 },
  }),
  against('graphile-worker', {
    id: 'postgres-prefetch-graphile-local',
    what: 'PostgreSQL, a worker of concurrency 10 that fetches 500 ahead, against graphile-worker with localQueue 500',
    goal: 0.6,
    ours: ['drainByWorker', { concurrency: 10, prefetch: 500 }],
    theirs: { concurrency: 10, localQueue: 500 },
    rates: { ours: 15_000, theirs: 25_000 },
  }),
  floor({ id: 'work-1', batch: 1, together: true, concurrency: 1, goal: 0.7, warmJobs: 4_000 }),
  floor({ id: 'work-10', batch: 10, together: true, concurrency: 10, goal: 2 }),
  floor({ id: '10', batch: 10, together: false, concurrency: 10, goal: 1.2 }),
  floor({ id: '50', batch: 50, together: false, concurrency: 50, goal: 3 }),
  floor({ id: 'prefetch', batch: 100, together: true, concurrency: 10, localQueue: 500, goal: 0.6 }),
  depth,
  onServer('postgres-idle-fleet', (server) => ({
    async run({ rounds, size }) {
      const load = size.isSmoke
        ? { processes: 2, settleMs: 100, ms: 500 }
        : { processes: 20, settleMs: 60_000, ms: 30_000 }
      const samples = []
      for (let round = 0; round < Math.min(rounds, 3); round++) samples.push(await rest({ ...load, server }))
      return [
        {
          id: 'postgres-idle-fleet',
          what: 'PostgreSQL, 20 idle workers: transactions of each per second',
          unit: '/s',
          goal: figure(atMost(1), '/s'),
          ours: samples.map(({ transactions }) => transactions),
        },
        {
          id: 'postgres-idle-fleet-processor',
          what: 'processor time of each of them, in percent of a core',
          unit: '%',
          goal: figure(atMost(0.3), '%'),
          ours: samples.map(({ processorPercent }) => processorPercent),
        },
      ]
    },
  })),
  onServer('postgres-idle-pickup', (server) =>
    latency(
      'postgres-idle-pickup',
      'PostgreSQL: add until an idle worker in another process runs it, p99 of 100',
      15,
      ({ rounds }) => pickUpElsewhere({ rounds, server }),
      100,
    ),
  ),
  onServer('postgres-crash-to-rerun', (server) =>
    latency(
      'postgres-crash-to-rerun',
      'PostgreSQL: kill -9 of a holder until its item runs in another process of the same machine, p99 of 30',
      1000,
      ({ rounds }) => rerunAfterCrash({ rounds, server }),
      30,
    ),
  ),
  onServer('postgres-crash-reported', (server) =>
    latency(
      'postgres-crash-reported',
      'the same on another machine; a process that only has the store open sees the death where it happens, p99 of 10',
      2000,
      ({ rounds }) => rerunAfterCrash({ rounds, server, elsewhere: { reporters: 1 } }),
      10,
    ),
  ),
  onServer('postgres-crash-unreported', (server) =>
    latency(
      'postgres-crash-unreported',
      'the same where nobody sees it: a lease of 5 s has to lapse, p99 of 5',
      leaseMs + 5000,
      ({ rounds, isSmoke }) =>
        rerunAfterCrash({
          rounds,
          server,
          elsewhere: { reporters: 0, leaseMs: isSmoke ? 500 : leaseMs },
        }),
      5,
    ),
  ),
]
