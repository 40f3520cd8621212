/** Everything that can be measured in a separate process, by name. Peers are loaded only when needed. */
import { manyCommands, startCommands } from './commands.mjs'
import { compareDepths } from './depth.mjs'
import { drainByCallers, drainByWorker } from './drain.mjs'
import { compareFilters } from './filters.mjs'
import { compareGrowth, compareQueues } from './growth.mjs'
import { lockByCallers } from './locks.mjs'
import { addMany, completeAwaited, dependOnAnother, openStale } from './many.mjs'
import { redeliver } from './messages.mjs'
import { compareDepthsOnPostgres } from './postgres-depth.mjs'
import { drainRaw } from './raw.mjs'
import { lockRaw } from './raw-locks.mjs'
import { drainRawOnPostgres } from './raw-postgres.mjs'
import { drainInTwoTrips } from './raw-two-trips.mjs'
import { compareRecovery, heal } from './recovery.mjs'
import { reserveAtTheLimit } from './reservations.mjs'

export const samples = {
  addMany,
  compareDepths,
  compareDepthsOnPostgres,
  compareFilters,
  compareGrowth,
  compareQueues,
  compareRecovery,
  completeAwaited,
  dependOnAnother,
  drainByCallers,
  drainByWorker,
  drainInTwoTrips,
  drainRaw,
  drainRawOnPostgres,
  heal,
  lockByCallers,
  lockRaw,
  manyCommands,
  openStale,
  redeliver,
  reserveAtTheLimit,
  startCommands,
  drainBullmq: async (parameters) => (await import('../peers/bullmq.mjs')).drain(parameters),
  drainBullmqPostgres: async (parameters) => (await import('../peers/bullmq-postgres.mjs')).drain(parameters),
  drainGraphile: async (parameters) => (await import('../peers/graphile-worker.mjs')).drain(parameters),
  drainPlainjob: async (parameters) => (await import('../peers/plainjob.mjs')).drain(parameters),
  lockProperLockfile: async (parameters) => (await import('../peers/proper-lockfile.mjs')).lock(parameters),
  lockRedlock: async (parameters) => (await import('../peers/redlock.mjs')).lock(parameters),
}
