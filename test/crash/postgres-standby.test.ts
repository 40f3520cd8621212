/** Commits that wait for a synchronous standby that is gone: the error says what they wait for. */
import { expect, onTestFinished, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { ownServer } from './server-store.ts'
import { openHere, until } from './support.ts'

const own = ownServer()
/** A commit that is not answered is given up after 5 s and this, and asked about for as long as a call waits. */
const busyTimeoutMs = 200
const patienceMs = 6_500

test('a commit that no standby confirms is in doubt and names the standbys, and so do the calls queued behind it [S5b-18]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { patienceMs, busyTimeoutMs })
  const witness = await openHere(store, { background: false, busyTimeoutMs })
  await hf.queue('q').add('before')
  onTestFinished(() => own.server.configure({ synchronous_standby_names: '' }))
  await waitForStandby('gone')

  const unconfirmed = await refusal(() => hf.queue('q').add('unconfirmed'))
  const behind = await refusal(() => hf.queue('q').add('behind'))
  await own.server.configure({ synchronous_standby_names: '' })
  await until('commits are confirmed again', async () => {
    const { item } = await hf.queue('q').add('after')
    return item.payload === 'after'
  })

  const facts = { synchronousStandbys: 'gone' }
  expect(unconfirmed).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { ...facts, inDoubt: true } })
  expect(unconfirmed.what).toContain('waits for the synchronous standby gone')
  expect(behind).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { ...facts, inDoubt: false } })
  expect(behind.what).toContain('waits for the synchronous standby gone')
  const { items } = await witness.queue('q').list()
  expect(items.map(({ payload }) => payload)).toEqual(['before', 'unconfirmed', 'after'])
})

/** Settings are read again a moment later: until commits do wait, one after the other is made. */
async function waitForStandby(name: string): Promise<void> {
  const client = await own.connect()
  await own.server.configure({ synchronous_standby_names: name })
  await until('commits wait for the standby', async () => {
    client.query("select pg_logical_emit_message(true, 'test', 'a commit')").catch(() => {})
    const sql = "select 1 from pg_stat_activity where wait_event = 'SyncRep'"
    const { rows } = await own.server.query((other) => other.query(sql))
    return rows.length > 0
  })
}
