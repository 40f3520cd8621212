/** `holdfast events`: the newest first of all, and only what was asked for. */
import { beforeAll, describe, expect, test } from 'vitest'
import { sharedShell } from '../support/cli.ts'

const shell = sharedShell()

interface Page {
  readonly events: { readonly seq: number; readonly kind: string; readonly queue: string | null }[]
  readonly next: number | null
}

const list = (...args: string[]) => shell.json<Page>('events', 'list', ...args)
const kindsOf = ({ events }: Page) => events.map(({ kind }) => kind)

beforeAll(async () => {
  for (const key of ['a', 'b', 'c']) await shell.run('queue', 'add', 'q', '1', '--key', key)
  await shell.run('task', 'add', 'one', '--key', 'T-1')
  await shell.run('queue', 'next', 'q')
  await shell.run('lock', 'acquire', 'deploy')
})

describe('events list', () => {
  test('shows the newest, in order [S6-E5]', async () => {
    const page = await list('--limit', '2')
    const everything = await list('--oldest')

    expect(page.events).toEqual(everything.events.slice(-2))
    expect(kindsOf(page)).toEqual(['item.claimed', 'lock.acquired'])
  })

  test('begins with the oldest if asked to, or after a number [S6-E5]', async () => {
    const oldest = await list('--oldest', '--limit', '2')
    const after = await list('--since', String(oldest.events[0]?.seq), '--limit', '1')

    expect(oldest.events[0]?.seq).toBe(1)
    expect(after.events).toEqual(oldest.events.slice(1))
  })

  test('filters by kind and by queue, and finds enough however far back [S6-E5]', async () => {
    const created = await list('--kind', 'item.created', '--limit', '3')
    const oneQueue = await list('--queue', 'q')
    const both = await list(
      '--queue',
      'q',
      '--kind',
      'item.claimed',
      '--kind',
      'item.created',
      '--limit',
      '2',
    )

    expect(kindsOf(created)).toEqual(['item.created', 'item.created', 'item.created'])
    expect(created.events.at(-1)?.queue).toBe('tasks')
    expect(kindsOf(oneQueue)).toEqual([
      'queue.created',
      'item.created',
      'item.created',
      'item.created',
      'item.claimed',
    ])
    expect(kindsOf(both)).toEqual(['item.created', 'item.claimed'])
  })

  test('continues where a page ended, even with a filter [S6-E5]', async () => {
    const first = await list('--kind', 'item.created', '--limit', '2')
    const second = await list('--kind', 'item.created', '--limit', '5', '--before', String(first.next))

    expect([...kindsOf(second), ...kindsOf(first)]).toEqual(Array(4).fill('item.created'))
    expect(second.next).toBeNull()
  })

  test('refuses a kind that does not exist, and names the nearest [S6-E5]', async () => {
    const { code, stderr } = await shell.run('events', 'list', '--kind', 'item.claimd')

    expect(code).toBe(2)
    expect(stderr).toBe('error  --kind: there is no "item.claimd"\nnext   did you mean "item.claimed"?\n')
  })

  test('are listed without a verb, and the help says which options there are then', async () => {
    const [alone, help] = [
      await shell.run('events', '--limit', '1', '--json'),
      await shell.run('events', '--help'),
    ]

    expect(alone.stdout).toBe((await shell.run('events', 'list', '--limit', '1', '--json')).stdout)
    expect(help.stdout).toContain(
      'holdfast events is short for holdfast events list; see holdfast events list --help.',
    )
  })

  test('lists the kinds once if the one asked for resembles none of them [S6-E5]', async () => {
    const { stderr } = await shell.run('events', 'list', '--kind', 'nonsense')

    expect(stderr).toMatch(
      /^error {2}--kind: there is no "nonsense"\nnext {3}give one of workflow\.defined, /,
    )
    expect(stderr.split('workflow.defined')).toHaveLength(2)
  })
})
