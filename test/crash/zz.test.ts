import { test } from 'vitest'
import { ownServer } from './server-store.ts'
import { openHere } from './support.ts'
const own = ownServer()
test('x', async () => {
  const store = own.newStore()
  const t0 = performance.now()
  const log = (...a: any[]) => console.log(Math.round(performance.now()-t0), ...a)
  const logger = { debug(){}, info(f:any,n:string){log('info',n,JSON.stringify(f))}, warn(f:any,n:string){log('warn',n,JSON.stringify(f))}, error(f:any,n:string){log('error',n,JSON.stringify(f))} }
  const hf = await openHere(store, { logger })
  await hf.queue('q').add('before')
  log('stopping')
  await own.server.stop()
  log('stopped')
  await own.server.start({ max_connections: 12 })
  log('started')
  await own.server.query(async c => log((await c.query('select pid, state, query, application_name from pg_stat_activity')).rows))
  for (let i=0;i<3;i++) { try { log(await hf.queue('q').stats()); break } catch (e) { log(e, (e as any).cause); 
  await own.server.query(async c => log((await c.query('select pid, state, query, application_name from pg_stat_activity')).rows))
  } }
})
