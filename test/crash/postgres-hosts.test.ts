/** Several servers: one that does not answer does not hide the primary, and the current standbys are shown. */
import { expect, test } from 'vitest'
import { ownServer } from './server-store.ts'
import { openHere, print, until } from './support.ts'

const own = ownServer()

test('[S5b-19] a silent host does not delay finding the primary', async () => {
  const store = own.newStore()
  const silent = await own.openProxy()
  const primary = await own.openProxy()
  const both = store.replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${silent.port},127.0.0.1:${primary.port}`)
  const hf = await openHere(both, { background: false })
  await hf.queue('q').add('before')
  silent.stall()
  silent.reset()
  const cutAt = performance.now()
  primary.cut()

  const adding = hf.queue('q').add('after')
  // Each of the two connections asks again and again meanwhile; together with the silent host each would ask once.
  await until('the other host was asked again', () => primary.refusals >= 8)
  primary.mend()
  const { item } = await adding
  const foundMs = performance.now() - cutAt

  print(`found after ${Math.round(foundMs)} ms`)
  expect(item.payload).toBe('after')
  // A second for a higher timeline is part of it; a silent host alone took 5 s.
  expect(foundMs).toBeLessThan(4_500)
})

test('[S5b-20] status shows the standbys as they are now, and doctor warns when the list was emptied', async () => {
  const store = own.newStore()
  // Its commits wait for no standby, for there is none.
  const hf = await openHere(store, { durability: 'normal' })
  const shown = () => hf.status.server
  expect(shown()).toMatchObject({ synchronousStandbys: '', formerStandbys: null })

  await setStandbys('nobody')
  await until('the list is seen', () => shown()?.synchronousStandbys === 'nobody')
  await setStandbys('')
  await until('it is seen to be empty', () => shown()?.synchronousStandbys === '')
  const later = await openHere(store, { background: false })
  const { findings } = await later.fleet.doctor()

  expect(shown()).toMatchObject({ formerStandbys: 'nobody' })
  const [found] = findings.filter(({ check }) => check === 'store')
  expect(found).toMatchObject({ level: 'warning', what: expect.stringContaining('(nobody)') })
})

async function setStandbys(list: string): Promise<void> {
  await own.server.query(async (client) => {
    await client.query(`alter system set synchronous_standby_names = '${list}'`)
    await client.query('select pg_reload_conf()')
  })
}
