/**
 * An HA manager that makes mistakes: it promotes servers apart from each other, and throws away what was acknowledged.
 * Running processes refuse a branch that does not follow from the one they know, follow it when there is no other, and
 * report what is lost.
 */
import { afterAll, expect, test } from 'vitest'
import { openHere } from '../crash/support.ts'
import { leaveGround } from '../support/server-ground.ts'
import { Cluster, type Node } from './cluster.ts'
import { Fleet } from './fleet.ts'

const foundWithinMs = 20_000
/** Such a branch is refused for 60 s. */
const adoptedWithinMs = 60_000 + foundWithinMs

afterAll(() => leaveGround())

test('a second branch with the same number is followed after a minute, and what only the first had is reported [S5b-14]', {
  timeout: 300_000,
}, async () => {
  const { cluster, fleet, first, second, before } = await splitCluster()

  await cluster.forcePrimary(first)
  await fleet.findsPrimary(foundWithinMs)
  await fleet.goesOn()
  const timelines = [await first.server.timeline()]
  await cluster.forcePrimary(second)
  timelines.push(await second.server.timeline())
  const branch = { before, last: await fleet.added() }
  const late = await openHere(cluster.store, { agent: 'late', background: false })
  await late.queue('late').add('work')
  await fleet.findsPrimary(adoptedWithinMs)
  await fleet.goesOn()

  expect(timelines).toEqual([2, 2])
  await fleet.expectError('store.branch_adopted')
  await expectReported(fleet, branch)
})

test('a branch with a lower number is followed after a minute, and what only the higher one had is reported [S5b-14]', {
  timeout: 300_000,
}, async () => {
  const { cluster, fleet, first, second, before } = await splitCluster()
  const origin = cluster.primary

  await cluster.forcePrimary(first)
  await fleet.findsPrimary(foundWithinMs)
  await cluster.join(origin)
  await cluster.leaveBehind(origin)
  await cluster.forcePrimary(origin)
  await fleet.findsPrimary(foundWithinMs)
  await fleet.goesOn()
  const timelines = [await origin.server.timeline()]
  await cluster.forcePrimary(second)
  timelines.push(await second.server.timeline())
  const branch = { before, last: await fleet.added() }
  await fleet.findsPrimary(adoptedWithinMs)
  await fleet.goesOn()

  expect(timelines).toEqual([3, 2])
  await fleet.expectError('store.branch_adopted')
  await expectReported(fleet, branch)
})

test('a standby that lacks acknowledged commits is followed at once, and what it lacks is reported [S5b-15]', {
  timeout: 300_000,
}, async () => {
  const { cluster, fleet, second, before } = await splitCluster()

  await fleet.goesOn()
  await cluster.forcePrimary(second)
  const branch = { before, last: await fleet.added() }
  await fleet.findsPrimary(foundWithinMs)
  await fleet.goesOn()

  await expectReported(fleet, branch)
})

/** One standby is left behind. What was acknowledged before, all of them have. */
async function splitCluster(): Promise<{
  readonly cluster: Cluster
  readonly fleet: Fleet
  readonly first: Node
  readonly second: Node
  readonly before: readonly string[]
}> {
  const cluster = await Cluster.create({ isSynchronous: false })
  const fleet = await Fleet.start(cluster)
  const [first, second] = cluster.standbys as [Node, Node]
  const before = await fleet.added()
  await cluster.leaveBehind(second)
  return { cluster, fleet, first, second, before }
}

async function expectReported(
  fleet: Fleet,
  branch: { readonly before: readonly string[]; readonly last: readonly string[] },
): Promise<void> {
  await fleet.expectError('store.commits_lost')
  const events = await fleet.expectOnlyLost(branch)
  expect(events.map(({ kind }) => kind)).toContain('store.commits_lost')
}
