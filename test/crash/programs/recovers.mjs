/** Opens a store past Holdfast: fills its log, or reads, which recovers a log whose index is damaged. */
import { createRequire } from 'node:module'

const [store] = process.argv.slice(2)
const { DatabaseSync } = createRequire(import.meta.url)('@photostructure/sqlite')
const database = new DatabaseSync(store)
const acts = {
  /** Long enough that its recovery can be watched: SQLite reads and checks every page of it. */
  fill() {
    database.exec('pragma wal_autocheckpoint = 0; pragma synchronous = off; create table filler (bytes)')
    for (let megabytes = 0; megabytes < 64; megabytes++)
      database.exec('insert into filler values (zeroblob(1000000))')
  },
  read() {
    database.prepare('select count(*) from item').get()
  },
}

process.on('disconnect', () => process.exit())
process.on('message', ({ number, order }) => {
  acts[order]()
  process.send({ type: 'answer', number })
})
process.send({ type: 'ready', pid: process.pid })
