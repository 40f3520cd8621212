/** Reads while another process recovers the log: they wait their time, then say BUSY. */
import { closeSync, openSync, readFileSync, statSync, writeSync } from 'node:fs'
import { expect, test } from 'vitest'
import { type Actor, newStore, openHere, print, startProgram, until } from './support.ts'

const busyTimeoutMs = 300

test.runIf(process.platform === 'linux')(
  'every read waits while another process recovers the log, then fails with BUSY [S5-27] [S5c-22] [X4]',
  async () => {
    const store = newStore()
    const hf = await openHere(store, { background: false, busyTimeoutMs })
    const patient = await openHere(store, { background: false, busyTimeoutMs: 20_000 })
    const queue = hf.queue('q')
    const { item } = await queue.add({ a: 1 })
    const recoverer = await startProgram('recovers', { args: [store] })
    await recoverer.ask('fill')
    const { reading } = await stopInRecovery(store, recoverer)
    const reads: Readonly<Record<string, () => Promise<unknown>>> = {
      get: () => queue.get(item.id),
      list: () => queue.list(),
      stats: () => queue.stats(),
      peek: () => queue.peek(),
      position: () => queue.position(item.id),
      'lock info': () => queue.getProcessingLock(),
      'task list': () => hf.tasks.listTasks(),
      'lock list': () => hf.locks.list(),
      inbox: () => hf.messages.inbox(),
      state: () => hf.state('key').get(),
      'state list': () => hf.state.list(),
      agents: () => hf.agents.list(),
      events: () => hf.execute('events.list', {}),
      'recovery stats': () => hf.recovery.getRecoveryStats(),
      overview: () => hf.fleet.status(),
    }

    const late = patient.queue('q').get(item.id)
    const answers = await Promise.all(
      Object.entries(reads).map(async ([name, read]) => {
        const askedAt = performance.now()
        const error = await read().then(
          () => null,
          (refusal: { code?: string }) => refusal,
        )
        return { name, code: error?.code ?? 'answered', ms: Math.round(performance.now() - askedAt) }
      }),
    )
    recoverer.kill('SIGCONT')

    print(`reads during a recovery: ${answers.map(({ name, ms }) => `${name} ${ms} ms`).join(', ')}`)
    expect(answers.filter(({ code }) => code !== 'BUSY')).toEqual([])
    expect(answers.filter(({ ms }) => ms < busyTimeoutMs)).toEqual([])
    expect(await late).toMatchObject({ id: item.id })
    await reading
    expect(await queue.get(item.id)).toMatchObject({ payload: { a: 1 } })
  },
)

/** Damages the index of the log, as a writer killed in the wrong moment would, and stops who mends it half-way. */
async function stopInRecovery(store: string, recoverer: Actor): Promise<{ reading: Promise<unknown> }> {
  for (;;) {
    blankIndex(store)
    let isRead = false
    const reading = recoverer.ask('read').then(() => {
      isRead = true
    })
    await until('the recovery has begun', () => isRead || isRecovering(store, recoverer.pid))
    recoverer.kill('SIGSTOP')
    if (isRecovering(store, recoverer.pid)) return { reading }
    recoverer.kill('SIGCONT')
    await reading
  }
}

/** Both copies of the header of the log's index. */
function blankIndex(store: string): void {
  const file = openSync(`${store}-shm`, 'r+')
  writeSync(file, new Uint8Array(96), 0, 96, 0)
  closeSync(file)
}

/** Whether the kernel says that the process has locked the byte of the index that stands for its recovery. */
function isRecovering(store: string, pid: number): boolean {
  const { ino } = statSync(`${store}-shm`)
  const recoveryByte = 122
  return readFileSync('/proc/locks', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .some(
      ([, , , mode, owner, place, first, last]) =>
        mode === 'WRITE' &&
        Number(owner) === pid &&
        place?.endsWith(`:${ino}`) &&
        Number(first) <= recoveryByte &&
        Number(last) >= recoveryByte,
    )
}
