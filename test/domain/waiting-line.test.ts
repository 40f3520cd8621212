/** What of the commands that wait for a connection to PostgreSQL goes into the next batch. */
import { beforeEach, describe, expect, test } from 'vitest'
import { type Waiting, WaitingLine, waitingFor } from '../../src/engines/postgres/waiting-line.ts'

const kib = 1024

let renewals: Waiting[]
let line: WaitingLine
beforeEach(() => {
  renewals = []
  line = new WaitingLine(renewals)
})

function command(kind: Waiting['kind'], { payload = '', namespace = 'default' } = {}): Waiting {
  const operation = { effect: kind === 'read' ? 'read' : 'write' }
  const prepared = { input: { payload }, command: { namespace }, operation } as unknown as Waiting['prepared']
  return waitingFor({ prepared, kind, resolve: () => {}, reject: () => {}, askedAt: 0, deadline: 1 })
}

function many(count: number, kind: Waiting['kind'], options = {}): Waiting[] {
  return Array.from({ length: count }, () => command(kind, options))
}

/** The sizes of all batches, until nothing waits. */
function sizes(): number[] {
  const taken: number[] = []
  while (!line.isEmpty) taken.push(line.take().length)
  return taken
}

describe('renewals', () => {
  test('go ahead of what has waited longer [S5c-7]', () => {
    const read = command('read')
    const renewal = command('renewal')
    line.add(read, renewal)

    expect(line.take()).toEqual([renewal])
    expect(line.take()).toEqual([read])
  })

  test('do not go twice in a row while something else waits [S5c-7]', () => {
    line.add(...many(2, 'read', { namespace: 'other' }), command('read'))
    const kinds: string[] = []
    for (let round = 0; round < 6; round++) {
      line.add(command('renewal'))
      kinds.push(line.take()[0]?.kind as string)
    }

    expect(kinds).toEqual(['renewal', 'read', 'renewal', 'read', 'renewal', 'renewal'])
  })

  test('go first again after a pause: nothing that comes with them has been passed over [S5c-7]', () => {
    line.add(command('renewal'))
    line.take()
    line.rest()
    line.add(command('read'), command('renewal'))

    expect(line.take()[0]?.kind).toBe('renewal')
  })

  test('are seen to wait while something else goes first [S5c-7]', () => {
    line.add(command('renewal'), command('read'))
    line.take()
    line.add(command('renewal'))

    expect(line.take()[0]?.kind).toBe('read')
    expect(line.hasRenewals).toBe(true)
  })

  test('are taken by whichever lane comes first [S5c-7]', () => {
    const other = new WaitingLine(renewals)
    line.add(command('renewal'))

    expect(other.take()).toHaveLength(1)
    expect(line.isEmpty).toBe(true)
  })
})

describe('a batch', () => {
  test('takes no more than 1 MiB, with new content counted twice [S5c-8]', () => {
    line.add(...many(20, 'write', { payload: 'x'.repeat(128 * kib) }))

    expect(sizes()).toEqual([4, 4, 4, 4, 4])
  })

  test('of more than 1 MiB has one command, and nothing overtakes it [S5c-8]', () => {
    const [first, large, last] = [
      command('write'),
      command('write', { payload: 'x'.repeat(2048 * kib) }),
      command('write'),
    ]
    line.add(first, large, last)

    expect([line.take(), line.take(), line.take()]).toEqual([[first], [large], [last]])
  })

  test('takes 500 commands at most, of one namespace', () => {
    line.add(...many(600, 'write'), command('write', { namespace: 'other' }))

    expect(sizes()).toEqual([500, 100, 1])
  })

  test('is taken even if more wait than a call can have arguments', () => {
    const count = 200_000
    const write = command('write')
    for (let added = 0; added < count; added++) line.add(write)

    expect(line.take()).toHaveLength(500)
    expect(line.own).toHaveLength(count - 500)
  })

  test('that lost its connection comes back first, in at most 16 pieces [S5c-8]', () => {
    const lost = many(40, 'write')
    const later = command('write')
    line.add(later)
    line.takeApart(lost)

    const batches: Waiting[][] = []
    while (!line.isEmpty) batches.push(line.take())

    expect(batches.map(({ length }) => length)).toEqual([...Array(13).fill(3), 2])
    expect(batches.flat()).toEqual([...lost, later])
  })

  test('keeps repeated reads separate from first reads [S5c-7]', () => {
    const again = command('read')
    again.reads = 1
    line.add(command('read'), again, command('read'))

    expect(sizes()).toEqual([2, 1])
  })
})
