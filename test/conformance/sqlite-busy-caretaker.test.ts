/** Whatever else a caretaker has to do, it keeps looking for dead holders. On a server, moved time waits for its work. */
import { type Holdfast, type OpenOptions, open } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { expect, onTestFinished, test } from 'vitest'
import { hourMs } from '../support/retention.ts'

const items = 5_000

/** A store, and in order how often its caretaker looked for dead holders and how many items it changed at once. */
async function openObserved(options: OpenOptions = {}) {
  const done: ('looked' | number)[] = []
  const answered = (operation: string, answer: unknown) => {
    if (operation === 'instance.list') done.push('looked')
    if (operation === 'recovery.run') done.push((answer as { promoted: number }).promoted)
    if (operation === 'retention.run') done.push((answer as { items: number }).items)
  }
  const environment = new MovableEnvironment({ answered })
  const hf = await open('sqlite::memory:', { environment, logger: false, redelivery: false, ...options })
  onTestFinished(() => hf.close())
  return { hf, environment, done }
}

async function addItems(hf: Holdfast, fields: { runAt?: number } = {}): Promise<void> {
  for (let added = 0; added < items; added += 1_000)
    await hf
      .queue('jobs')
      .addMany(Array.from({ length: 1_000 }, (_, number) => ({ payload: number, ...fields })))
}

/** How often it looked between the first and the last change. */
function looksAmong(done: readonly ('looked' | number)[]): number {
  const hasChanged = (each: 'looked' | number) => each !== 'looked' && each > 0
  const during = done.slice(done.findIndex(hasChanged), done.findLastIndex(hasChanged))
  return during.filter((each) => each === 'looked').length
}

function sumOf(done: readonly ('looked' | number)[]): number {
  return done.reduce<number>((sum, each) => sum + (each === 'looked' ? 0 : each), 0)
}

test('looks for dead holders while many items become due at once', async () => {
  const { hf, environment, done } = await openObserved()
  await addItems(hf, { runAt: environment.now() + 60_000 })

  while (sumOf(done) < items) await environment.advance(10_000)

  expect(looksAmong(done)).toBeGreaterThan(0)
})

test('looks for dead holders while many items are removed', async () => {
  const { hf, environment, done } = await openObserved({ retention: { itemsMs: hourMs } })
  await addItems(hf)
  for (let finished = 0; finished < items; finished += 100) {
    const claim = await hf.queue('jobs').claimMany(100)
    if (claim.outcome !== 'claimed') expect.fail('there are items left')
    await Promise.all(claim.items.map(({ item }) => hf.queue('jobs').complete(item.id)))
  }

  while (sumOf(done) < items) await environment.advance(10_000)

  expect(looksAmong(done)).toBeGreaterThan(0)
})
