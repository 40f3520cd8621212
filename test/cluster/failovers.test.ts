/** Three servers under load: primaries that die, freeze or fall silent, and hosts that never answer. */
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { claimBy, openActor, openHere, print, until } from '../crash/support.ts'
import { leaveGround } from '../support/server-ground.ts'
import { Cluster } from './cluster.ts'
import { Fleet } from './fleet.ts'

const rounds = Number(process.env.HOLDFAST_TEST_CLUSTER_ROUNDS ?? 3)
/** A question that stays open is given up after 10 s; then there is a search. */
const foundWithinMs = 20_000
/** Longer than a question may stay open, and shorter than a call waits. */
const withoutStandbysMs = 15_000

afterAll(() => leaveGround())

test('processes leave a frozen primary for its successor and do not return to it when it wakes [X6]', {
  timeout: 120_000,
}, async () => {
  const cluster = await Cluster.create()
  const fleet = await Fleet.start(cluster)

  cluster.primary.server.freeze()
  const former = await cluster.failOver()
  await fleet.findsPrimary(foundWithinMs)
  former.server.thaw()
  await cluster.primary.server.endSessions()
  await fleet.goesOn()
  const late = await openHere(cluster.store, { agent: 'late', background: false })
  await late.queue('late').add('work')

  expect(late.status.server?.timeline).toBe(await cluster.primary.server.timeline())
  await fleet.expectWhole()
})

test(`${rounds} primaries in a row are killed, and each comes back as a standby [X6]`, {
  timeout: rounds * 60_000,
}, async () => {
  const cluster = await Cluster.create()
  const fleet = await Fleet.start(cluster)

  for (let round = 0; round < rounds; round++) {
    await cluster.primary.server.kill()
    const former = await cluster.failOver()
    await fleet.findsPrimary(foundWithinMs)
    await cluster.rebuild(former)
    await fleet.goesOn()
  }

  await fleet.expectWhole()
})

test('a failover that takes 25 s fails no call and loses no lease, with the defaults [S5b-16]', {
  timeout: 180_000,
}, async () => {
  const cluster = await Cluster.create()
  const fleet = await Fleet.start(cluster)
  const holder = await openActor(cluster.store, { agent: 'holder' })
  await holder.ask('add', { queue: 'held', payload: 'work' })
  const item = await claimBy(holder, 'held')

  cluster.primary.server.freeze()
  // An HA manager is sure 20 to 30 s after the primary last renewed its key.
  await pause(25_000)
  await cluster.failOver()
  await fleet.findsPrimary(foundWithinMs)
  await holder.ask('complete', { queue: 'held', item: item.id })

  expect(holder.all('aborted')).toEqual([])
  await fleet.expectWhole()
})

test('a host that never answers does not delay processes looking for the primary among the others [S5b-19]', {
  timeout: 120_000,
}, async () => {
  const cluster = await Cluster.create()
  const fleet = await Fleet.start(cluster)

  await cluster.primary.server.kill()
  const next = await cluster.findSuccessor()
  const silent = cluster.standbys.find((node) => node !== next)
  silent?.stall()
  await cluster.failOver()
  await fleet.findsPrimary(foundWithinMs)
  silent?.mend()
  await fleet.goesOn()

  await fleet.expectWhole()
})

test('processes leave a region that falls silent and do not return when it is heard again [X6]', {
  timeout: 120_000,
}, async () => {
  const cluster = await Cluster.create()
  const fleet = await Fleet.start(cluster)

  cluster.primary.stall()
  const former = await cluster.failOver()
  await fleet.findsPrimary(foundWithinMs)
  former.mend()
  await cluster.primary.server.endSessions()
  await fleet.goesOn()

  await fleet.expectWhole()
})

test('without standbys nothing is acknowledged and connections at most double; then everything resumes [X6]', {
  timeout: 120_000,
}, async () => {
  const cluster = await Cluster.create()
  const fleet = await Fleet.start(cluster)
  const { server } = cluster.primary
  const usual = await server.countSessions()

  for (const { link } of cluster.standbys) link.cut()
  await until('no standby is left', async () => (await server.countStandbys()) === 0)
  const before = await fleet.acknowledged()
  const goneAt = performance.now()
  const counts: number[] = []
  while (performance.now() - goneAt < withoutStandbysMs) {
    counts.push(await server.countSessions())
    await pause(250)
  }
  const meanwhile = await fleet.acknowledged()
  for (const { link } of cluster.standbys) link.mend()
  await fleet.goesOn()

  print(`${usual} connections, then at most ${Math.max(...counts)}`)
  expect(meanwhile).toBe(before)
  expect(Math.max(...counts)).toBeLessThanOrEqual(2 * usual)
  await fleet.expectWhole()
})
