/** A disk that takes no more. */
import { spawn } from 'node:child_process'
import { expect, test } from 'vitest'
import {
  Actor,
  expectSoundAndFree,
  newStore,
  openHere,
  print,
  program,
  query,
  runCli,
  until,
} from './support.ts'

/**
 * A limit on the size of files stands for a disk that is full: the same writes fail, for one process only. Node
 * ignores the signal that would otherwise end it.
 */
const blocks = 2048
/** Less than the index of the log takes, which is made when a store is opened. */
const blocksForNoIndex = 16

function fillWithin(store: string, limit: number): Actor {
  return new Actor(
    spawn('sh', ['-c', `ulimit -f ${limit}; exec "$0" "$@"`, process.execPath, program('fills'), store], {
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    }),
  )
}

test.runIf(process.platform === 'linux')(
  'writes that find no room are refused by code and lose nothing acknowledged [X6] [EP-001] [X4]',
  async () => {
    const store = newStore()
    const hf = await openHere(store)
    const limited = fillWithin(store, blocks)

    const refused = await limited.told('refused')
    // Moves the log into the main file and empties it, as an operator's making room would; a reader keeps it busy.
    await until('the log is empty', () => {
      const [row] = query(store, 'pragma wal_checkpoint(truncate)') as { busy: number }[]
      return row?.busy === 0
    })
    limited.child.send('try again')
    const again = await limited.told('refused', ({ at }) => at > refused.at)
    await hf.queue('q').add('from a process without the limit')

    print(`no room after ${refused.added} items; after making some, another ${again.added}`)
    expect(refused).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(refused.added).toBeGreaterThan(0)
    expect(again).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(again.added).toBeGreaterThan(0)
    const acknowledged = limited.all('added').map(({ item }) => item)
    const stored = query(store, "select id from item where payload like '%xxx%'")
    expect(stored.map((row) => (row as { id: string }).id).sort()).toEqual(acknowledged.sort())
    expect(await hf.queue('q').stats()).toMatchObject({ pending: acknowledged.length + 1 })
    expectSoundAndFree(store)
  },
)

test.runIf(process.platform === 'linux')(
  'opening a store on a full disk says so, and leaves it as it was [S5-32] [X4]',
  async () => {
    const store = newStore()
    // In a process of its own, whose end takes the index of the log away.
    await runCli(store, 'queue', 'add', 'q', '"kept"')

    const refused = await fillWithin(store, blocksForNoIndex).told('refused')
    const after = await openHere(store)

    expect(refused).toMatchObject({ code: 'STORE_UNAVAILABLE', added: 0 })
    expect(refused.message).toMatch(/^the disk of .*store\.db is full; nothing was changed; free space/)
    expect((await after.queue('q').list()).items).toMatchObject([{ payload: 'kept' }])
    expectSoundAndFree(store)
  },
)
