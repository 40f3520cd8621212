/** `status` on screens of every size: what matters is on it, and it is one screen. */
import { join } from 'node:path'
import { open } from 'holdfast'
import { beforeAll, describe, expect, test } from 'vitest'
import { aShell, sharedShell } from '../support/cli.ts'

const shell = sharedShell()

/** Thirty queues with work, thirty agents that hold something, and one of each that is in trouble. */
beforeAll(async () => {
  await shell.run('init')
  const hf = await open(join(shell.folder, '.holdfast', 'store.db'), {
    agent: 'boss',
    background: false,
    durability: 'normal',
    logger: false,
  })
  await Promise.all(
    Array.from({ length: 30 }, async (_, number) => {
      const queue = hf.queue(`queue-${number}`)
      await queue.add({ number }, { key: `a key that goes on ${'and on '.repeat(20)}${number}` })
      await queue.next({ agent: `agent-${number}` })
    }),
  )
  await hf.queue('idle').add(1, { key: 'gone' })
  await hf.queue('idle').cancel('gone')
  const fragile = hf.queue('zz-fragile', { maxCrashes: 1 })
  await fragile.add(1)
  await fragile.next({ agent: 'unlucky', leaseMs: 0 })
  // A lease holds in its last millisecond too, which may not be over yet.
  for (let freed = 0; freed === 0; ) freed = (await hf.recovery.detectAndRecoverStale()).entriesReclaimed
  await hf.close()
})

describe('status', () => {
  test.each([
    [80, 24],
    [100, 30],
    [200, 60],
  ])('fits into %i columns and %i lines, with its prompt', async (columns, rows) => {
    const { stdout } = await shell.runWith({ columns, rows }, 'status')

    const lines = stdout.trimEnd().split('\n')
    expect(lines.length).toBeLessThan(rows)
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns)
    expect(stdout).toMatch(/queue zz-fragile has 1 quarantined item/)
    expect(stdout).toMatch(/and \d+ more/)
    expect(stdout).toMatch(/^unlucky /m)
    expect(stdout).toMatch(/^recovery /m)
  })

  test.each([
    [80, 14],
    [60, 9],
    [80, 6],
  ])('on %i columns and %i lines shows a row below every heading [S5-22]', async (columns, rows) => {
    const { stdout } = await shell.runWith({ columns, rows }, 'status')

    const lines = stdout.trimEnd().split('\n')
    const headings = lines.flatMap((line, index) => (/^(queue|held|agent) /.test(line) ? [index] : []))
    expect(lines.length).toBeLessThan(rows)
    expect(headings.length).toBeGreaterThan(0)
    expect(stdout).toMatch(/queue zz-fragile has 1 quarantined item/)
    for (const index of headings) expect(lines[index + 1]).toMatch(/^(queue-|zz-frag|item|unlucky|agent-)/)
  })

  test('begins with the queue that needs attention, although its name is the last [S5e-10]', async () => {
    const { stdout } = await shell.runWith({ columns: 100, rows: 24 }, 'status')

    expect(stdout).toMatch(/^queue .*\nzz-fragile /m)
  })

  test('shows everything there is room for, and never an idle queue before a busy one', async () => {
    const { stdout } = await shell.runWith({ columns: 200, rows: 200 }, 'status')

    const queues = [...stdout.matchAll(/^(queue-\d+|idle|zz-fragile) /gm)].map(([, name]) => name)
    expect(queues).toHaveLength(32)
    expect(queues.at(-1)).toBe('idle')
    expect(stdout).toMatch(/^agent-29 /m)
    expect(stdout).toContain('see why with `holdfast queue quarantine zz-fragile`')
  })

  test('names a namespace that is not the usual one: a mistyped one looks like a fleet at rest', async () => {
    const head = async (...more: string[]) => (await shell.run('status', ...more)).stdout.split('\n')[0]

    expect(await head()).not.toContain('namespace')
    expect(await head('--namespace', 'prodction')).toContain('store.db  namespace prodction  ')
  })

  test('is complete if the size of the screen is unknown', async () => {
    const { stdout } = await shell.run('status')

    expect(stdout.match(/^queue-\d+ /gm)).toHaveLength(30)
    expect(stdout).toContain('and on and on 2')
    expect(stdout).toContain('and 10 more')
  })

  test('as JSON counts everything and shows leases that end soonest first', async () => {
    const fleet = await shell.json<Fleet>('status')

    expect(fleet).toMatchObject({
      store: { engine: 'sqlite', durability: 'full' },
      held: { total: 30, expired: 0 },
      recovery: { due: 0 },
    })
    expect(fleet.held.shown).toHaveLength(20)
    expect(fleet.queues).toHaveLength(32)
  })
})

test('columns line up whatever they contain', async () => {
  const shell = aShell()
  const titles = ['plain', '日本語のタイトル', 'cafe\u0301 🎉']
  for (const [number, title] of titles.entries()) {
    await shell.run('task', 'add', title, '--key', `T-${number}`)
    await shell.run('task', 'claim', `T-${number}`)
  }

  const { stdout } = await shell.run('status')

  const before = [...stdout.matchAll(/^(task .*?)in_progress/gm)].map(([, text]) => text as string)
  // Each of these characters takes two columns, and the accent none.
  const widths = before.map(
    (text) =>
      text.length +
      [...text].filter((each) => /[\u3000-\u9fff]/.test(each)).length -
      (text.includes('\u0301') ? 1 : 0),
  )
  expect(before).toHaveLength(3)
  expect(new Set(widths).size).toBe(1)
})

test('a list of items shows by phase what can be claimed, what is delayed and what waits [S5-22]', async () => {
  const shell = aShell()
  await shell.run('queue', 'add', 'q', '{"branch":"main"}', '--key', 'now')
  await shell.run('queue', 'add', 'q', '"x"', '--key', 'later', '--run-at', '+10m')
  await shell.run('queue', 'add', 'q', 'y', '--key', 'stacked', '--parent', 'now')

  const { stdout } = await shell.run('queue', 'list', 'q')

  expect(stdout).toMatch(/ now +pending +ready +5 +- +\{"branch":"main"\}$/m)
  expect(stdout).toMatch(/ later +pending +delayed, in (?:10m|9m\d+s) +5 +- +x$/m)
  expect(stdout).toMatch(/ stacked +pending +blocked by 1 +5 +- +y$/m)
})

test('on a narrow terminal the id of an item stays whole, and its payload is cut [S5-22]', async () => {
  const shell = aShell()
  const { item } = await shell.json<{ item: { id: string } }>(
    'queue',
    'add',
    'q',
    JSON.stringify('long '.repeat(50)),
  )

  const { stdout } = await shell.runWith({ columns: 80, rows: 24 }, 'queue', 'list', 'q')

  expect(stdout).toMatch(new RegExp(`^${item.id} .*long .*…$`, 'm'))
  expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
})

interface Fleet {
  readonly queues: readonly unknown[]
  readonly held: { readonly shown: readonly unknown[] }
}
