/** Commits whose answer is lost, and transactions nobody ends: each is settled, once and for all. */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import type { CommitFault } from '../support/proxy.ts'
import { expectAcknowledgedOnce, goesOn, openLoad } from './load.ts'
import { ownServer, wholeAudit } from './server-store.ts'
import { claimBy, numbered, openActor, openHere, print, until } from './support.ts'

const own = ownServer()

/** What is asked when the fault happens, what it must answer, and the one event it must leave. */
const calls: Record<string, { act(hf: Holdfast): Promise<unknown>; answer: unknown; event: string }> = {
  add: {
    act: (hf) => hf.queue('q').add('work'),
    answer: { item: { payload: 'work' } },
    event: 'item.created',
  },
  next: {
    act: (hf) => hf.queue('q').next(),
    answer: { outcome: 'claimed', item: { payload: { number: 0 } } },
    event: 'item.claimed',
  },
  acquireLock: {
    act: (hf) => hf.locks.acquireLock('l'),
    answer: { outcome: 'claimed' },
    event: 'lock.acquired',
  },
  set: {
    act: (hf) => hf.state('document').set('new', { expectedVersion: 1 }),
    answer: { version: 2 },
    event: 'state.set',
  },
}

describe.each(Object.entries(calls))('%s', (_name, { act, answer, event }) => {
  test.each<[CommitFault, string]>([
    ['lost', 'that never reached the server'],
    ['answer lost', 'whose answer was lost'],
    ['late', 'that the server got while it was asked about it'],
  ])('a commit (%s) %s is settled exactly once [X6]', async (fault) => {
    const store = own.newStore()
    const direct = await openHere(store, { background: false })
    await direct.queue('q').addMany(numbered(3))
    await direct.state('document').set('old')
    const proxy = await own.openProxy()
    // In this thread and with nothing in the background: the next commit is the one that is asked for here.
    const hf = await openHere(proxy.through(store), { agent: 'tester', background: false })

    const happened = proxy.breakCommit(fault)
    const answered = act(hf)
    await happened
    if (fault === 'late') {
      await until('somebody waits for the old transaction', () => isWaitedFor(store))
      proxy.deliver()
    }

    expect(await answered).toMatchObject(answer as object)
    const events = await wholeAudit(direct, own.server)
    expect(events.filter(({ agent }) => agent === 'tester').map(({ kind }) => kind)).toEqual([event])
  })
})

test('under load with every twentieth commit broken, every acknowledged change is there once [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(store)
  const faults: CommitFault[] = ['lost', 'answer lost', 'late']
  const broken: CommitFault[] = []
  let commits = 0
  const loads = await Promise.all(['left', 'right'].map((name) => openLoad(proxy.through(store), name)))
  await goesOn(loads)

  proxy.breakCommits(() => {
    if (++commits % 20 !== 0) return null
    const fault = faults[broken.length % faults.length] as CommitFault
    broken.push(fault)
    return fault
  })
  await until('30 commits were broken', () => broken.length >= 30)
  proxy.breakCommits(null)
  await goesOn(loads)

  print(`${broken.length} of ${commits} commits broken`)
  await expectAcknowledgedOnce(hf, loads, own.server)
})

async function isWaitedFor(store: string): Promise<boolean> {
  const sql = `select 1 from pg_stat_activity where application_name = 'holdfast' and wait_event_type = 'Lock'`
  return (await own.query(store, sql)).length > 0
}
