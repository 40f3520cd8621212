/** A commit whose flush fails is reported as in doubt, which is settled before anything else is written. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Holdfast, open } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { expect, onTestFinished, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'

const flushFailed = 10 | (4 << 8)

interface Ground {
  readonly hf: Holdfast
  /** The disk fails at these points, until told otherwise. */
  readonly failing: Set<string>
  /** Points reached so far. */
  readonly points: string[]
}

async function aFailingDisk(): Promise<Ground> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  const failing = new Set<string>()
  const points: string[] = []
  const environment = new MovableEnvironment({
    reached(point) {
      points.push(point)
      if (failing.has(point)) throw Object.assign(new Error('disk I/O error'), { errcode: flushFailed })
    },
  })
  const hf = await open(join(folder, 'store.db'), { environment, background: false, logger: false })
  points.length = 0
  onTestFinished(async () => {
    await hf.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { hf, failing, points }
}

test('a change whose commit cannot be flushed is reported as in doubt [S5-28] [X4]', async () => {
  const { hf, failing } = await aFailingDisk()
  failing.add('transaction.applied')

  const refused = await refusal(() => hf.queue('q').add('doubted'))

  expect(refused).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { inDoubt: true } })
  expect(refused.message).toContain('it is not known whether the change was made')
  expect(refused.message).not.toContain('nothing was changed')
})

test('every command of the batch is in doubt, and none is repeated unasked [S5-28]', async () => {
  const { hf, failing } = await aFailingDisk()
  await hf.queue('q').add('before')
  failing.add('transaction.applied')

  const answers = await Promise.all([1, 2, 3].map((number) => refusal(() => hf.queue('q').add(number))))

  expect(answers.map(({ facts }) => facts.inDoubt)).toEqual([true, true, true])
  expect(await hf.queue('q').stats()).toMatchObject({ pending: 1 })
})

test('the doubt is settled before the answer, if the disk allows it [S5-28]', async () => {
  const { hf, failing, points } = await aFailingDisk()
  failing.add('transaction.applied')

  await refusal(() => hf.queue('q').add('doubted'))

  expect(points.at(-1)).toBe('doubt.settled')
})

test('a process that closes settles it first [S5-28]', async () => {
  const { hf, failing, points } = await aFailingDisk()
  failing.add('transaction.applied').add('doubt.settling')
  await refusal(() => hf.queue('q').add('doubted'))
  failing.clear()

  await hf.close()

  expect(points.at(-1)).toBe('doubt.settled')
})

test('if it does not, nothing else is written before the doubt is settled [S5-28]', async () => {
  const { hf, failing, points } = await aFailingDisk()
  failing.add('transaction.applied').add('doubt.settling')
  await refusal(() => hf.queue('q').add('doubted'))
  failing.delete('transaction.applied')

  const meanwhile = await refusal(() => hf.queue('q').add('refused'))
  const begunWhile = points.filter((point) => point === 'transaction.begun').length
  failing.clear()
  const { item } = await hf.queue('q').add('after')

  expect(meanwhile).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { inDoubt: false } })
  expect(meanwhile.message).toContain('an earlier change is in doubt')
  expect(begunWhile).toBe(1)
  expect((await hf.queue('q').list()).items.map(({ id }) => id)).toEqual([item.id])
})
