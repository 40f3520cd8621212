/**
 * Many blockers whose process was lost after its commit. Only here: on a server every lost answer costs a new
 * connection, ten seconds in all, and recovery decides the same there.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { expect, onTestFinished, test } from 'vitest'
import { machine } from '../support/processes.ts'

test('one recovery frees what waits for any number of blockers [S5e-11]', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const env = new MovableEnvironment()
  let isLost = false
  const reached = (point: string) => {
    if (isLost && point === 'transaction.committed') throw new Error('lost after a commit')
  }
  const options = { background: false, recovery: false, logger: false } as const
  const store = join(folder, 'store.db')
  const hf = await open(store, { ...options, environment: { ...machine(env).process(7), reached } })
  const look = await open(store, { ...options, environment: env })
  const gates = await Promise.all(Array.from({ length: 12 }, () => hf.tasks.addTask('gate')))
  // One more than are freed with each gate.
  const behind = gates.flatMap(({ id }) => Array<string>(101).fill(id))
  await Promise.all(behind.map((id) => hf.tasks.addTask('behind', { dependsOn: [id] })))

  isLost = true
  const dropped = { reason: 'not needed', dependents: 'release' } as const
  await Promise.allSettled(gates.map(({ id }) => hf.tasks.removeTask(id, dropped)))
  isLost = false
  const left = await look.queue('tasks').stats()
  await look.recovery.detectAndRecoverStale()

  expect(left).toMatchObject({ pending: 1200, blocked: 12 })
  expect(await look.queue('tasks').stats()).toMatchObject({ pending: 1212, blocked: 0 })
  await Promise.all([hf.close(), look.close()])
})
