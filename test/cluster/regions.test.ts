/** Three regions, 40 ms apart in each direction: what calls take from each, and what the loss of one costs. */
import { afterAll, expect, test } from 'vitest'
import { wholeAudit } from '../crash/server-store.ts'
import { type Actor, openHere, print, quantile, startProgram, until } from '../crash/support.ts'
import { leaveGround } from '../support/server-ground.ts'
import { Cluster } from './cluster.ts'

const delayMs = 40
const losses = 3
const patient = { patience: 60_000 }

afterAll(() => leaveGround())

test('three regions: every region works on the primary, and losing one loses no acknowledged item [X6]', {
  timeout: 300_000,
}, async () => {
  const cluster = await Cluster.create({ delayMs })
  const processes: Actor[] = []
  for (const [region, store] of cluster.stores.entries()) {
    const process = await startProgram('region')
    print(await figuresOf(process, region, store))
    processes.push(process)
  }

  await Promise.all(processes.map((process) => process.ask('start')))
  for (let loss = 0; loss < losses; loss++) print(await lossOf(cluster, processes))
  const known = await Promise.all(processes.map((process) => process.ask<Kept>('stop', {}, patient)))
  const hf = await openHere(cluster.store, { agent: 'test', background: false })
  const events = await wholeAudit(hf, cluster.primary.server)

  const kept = events.filter(({ kind, queue }) => kind === 'item.created' && queue === 'kept')
  const numbers = kept.map(({ change }) => (JSON.parse(String(change?.payload)) as { number: string }).number)
  expect(known.flatMap(({ refused }) => refused)).toEqual([])
  expect(numbers.sort()).toEqual(known.flatMap(({ added }) => added).sort())
})

interface Kept {
  readonly added: readonly string[]
  readonly refused: readonly unknown[]
}

async function figuresOf(process: Actor, region: number, store: string): Promise<string> {
  const opened = await process.ask<number>('open', { store, agent: `region-${region}` })
  const adds = await process.ask<number[]>('adds', { count: 20 }, patient)
  const claims = await process.ask<number[]>('claims', { count: 20 }, patient)
  const rate = await process.ask<number>('rate', { callers: 50, ms: 3000 }, patient)
  const shown = (times: readonly number[]) => `${ms(quantile(times, 0.5))} (p95 ${ms(quantile(times, 0.95))})`
  return [
    `region ${'abc'[region]}: open ${ms(opened)}`,
    `add ${shown(adds)}`,
    `claim and complete ${shown(claims)}`,
    `${Math.round(rate)} adds/s by 50 callers`,
  ].join(', ')
}

/** The region of the primary falls silent, another takes over, and later the lost one comes back as a standby. */
async function lossOf(cluster: Cluster, processes: readonly Actor[]): Promise<string> {
  await Promise.all(processes.map((process) => process.ask('standstill')))
  cluster.primary.stall()
  const former = await cluster.failOver()
  await Promise.all(processes.map(goesOn))
  const stood = await Promise.all(processes.map((process) => process.ask<number>('standstill')))
  await cluster.rebuild(former)
  return `region ${former.name} lost, ${cluster.primary.name} promoted: stood still for ${stood.map(ms).join(', ')}`
}

async function goesOn(process: Actor): Promise<void> {
  const before = await process.ask<number>('count')
  await until('it goes on', async () => (await process.ask<number>('count')) > before, patient)
}

function ms(value: number): string {
  return `${Math.round(value)} ms`
}
