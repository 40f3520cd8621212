/** The SQL fence, in a database of the user's own. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSqlFence, type Grant, type SqlFenceOptions } from 'holdfast/fences'
import { describe, expect, onTestFinished, test } from 'vitest'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { openRaw, type RawDatabase } from '../support/sqlite-file.ts'
import { forEachEngine } from '../support/stores.ts'
import { createSuccession } from '../support/succession.ts'

const fence = createSqlFence({ dialect: 'sqlite' })

describe('a SQL fence', () => {
  forEachEngine((engine) => {
    test('refuses the transaction of a late holder and leaves what its successor wrote [Z7]', async () => {
      const { resource, late, current } = await createSuccession(engine)
      const { database } = createAccounts()
      setBalance(database, current, 200)

      const refused = await refusal(() => setBalance(database, late, 100))

      expect(refused.code).toBe('LEASE_LOST')
      expect(refused.facts).toMatchObject({
        subject: resource,
        token: late.token,
        currentToken: current.token,
      })
      expect(balanceIn(database)).toEqual([{ balance: 200 }])
    })
  })

  test('lets the first holder through, the same one again, and its successor', () => {
    const { database } = createAccounts()

    setBalance(database, { resource: 'r', token: 5 }, 1)
    setBalance(database, { resource: 'r', token: 5 }, 2)
    setBalance(database, { resource: 'r', token: 6 }, 3)

    expect(balanceIn(database)).toEqual([{ balance: 3 }])
  })

  test('still refuses after the database was closed and opened', async () => {
    const { database, path } = createAccounts()
    setBalance(database, { resource: 'r', token: 9 }, 1)
    database.close()

    const code = await refusalCode(() => setBalance(openForTest(path), { resource: 'r', token: 8 }, 2))

    expect(code).toBe('LEASE_LOST')
  })

  test('is unchanged when the transaction that raised it is rolled back', () => {
    const { database } = createAccounts()
    database.exec('begin immediate')
    raise(database, { resource: 'r', token: 9 })
    database.exec('rollback')

    setBalance(database, { resource: 'r', token: 8 }, 1)

    expect(balanceIn(database)).toEqual([{ balance: 1 }])
  })

  test('keeps resources apart', () => {
    const { database } = createAccounts()

    setBalance(database, { resource: 'one', token: 9 }, 1)
    setBalance(database, { resource: 'other', token: 8 }, 2)

    expect(balanceIn(database)).toEqual([{ balance: 2 }])
  })

  test('works with an asynchronous driver, and with one that returns tokens as text', async () => {
    const answer = async () => [{ token: '1800000000000000' }]

    await expect(fence.pass({ resource: 'r', token: 1_800_000_000_000_000 }, answer)).resolves.toBeUndefined()
    expect(await refusalCode(() => fence.pass({ resource: 'r', token: 7 }, answer))).toBe('LEASE_LOST')
  })

  test('speaks PostgreSQL with numbered parameters', () => {
    const statement = createSqlFence({ dialect: 'postgres', table: 'ops.fence' }).raise({
      resource: 'r',
      token: 7,
    })

    expect(statement.text.replace(/\s+/g, ' ')).toBe(
      'insert into ops.fence (resource, token) values ($1, $2::bigint) on conflict (resource) do update set token = greatest(fence.token, excluded.token) returning token',
    )
    expect(statement.values).toEqual(['r', 7])
  })

  test.each([
    ['no rows', []],
    ['two rows', [{ token: 1 }, { token: 1 }]],
    ['a row as a list', [[1]]],
    ['a token below the one that was raised', [{ token: 8 }]],
    ['a token that no number holds exactly', [{ token: '9007199254740993' }]],
  ])('does not take %s for permission', async (_, rows) => {
    expect(await refusalCode(() => fence.assertRaised({ resource: 'r', token: 9 }, rows))).toBe('INTERNAL')
  })

  test.each([
    { resource: '', token: 1 },
    { resource: 'a\nb', token: 1 },
    { resource: 'r'.repeat(513), token: 1 },
    { resource: 'r', token: 0 },
    { resource: 'r', token: 1.5 },
    { resource: 'r', token: Number.NaN },
    { resource: 'r', token: '7' },
    { resource: 'r' },
    { resource: null, token: 1 },
    { kind: 'item', token: 1 },
    { id: 'i1', token: 1 },
    { token: 1 },
    'r',
    null,
    undefined,
  ])('refuses the grant %j', async (grant) => {
    expect(await refusalCode(() => fence.raise(grant as Grant))).toBe('INVALID')
  })

  test.each([
    {},
    undefined,
    { dialect: 'mysql' },
    { dialect: 'toString' },
    { dialect: 'sqlite', table: 'fence; drop table account' },
    { dialect: 'sqlite', tabel: 'fence' },
    { dialect: 'sqlite', table: 'fence\n' },
    { dialect: 'sqlite', table: ['fence'] },
    { dialect: ['sqlite'] },
  ])('refuses the options %j', async (options) => {
    expect(await refusalCode(() => createSqlFence(options as SqlFenceOptions))).toBe('INVALID')
  })

  test('names the nearest option when one is mistyped', async () => {
    const mistyped = { dialect: 'sqlite', tabel: 'fence' } as SqlFenceOptions

    expect((await refusal(() => createSqlFence(mistyped))).next).toBe('did you mean "table"?')
  })
})

function createAccounts(): { database: RawDatabase; path: string } {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-fence-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'accounts.db')
  const database = openForTest(path)
  database.exec(fence.createTable)
  database.exec('create table account (balance integer); insert into account values (0)')
  return { database, path }
}

function openForTest(path: string): RawDatabase {
  const database = openRaw(path)
  onTestFinished(() => {
    try {
      database.close()
    } catch {
      // The test has closed it itself.
    }
  })
  return database
}

function raise(database: RawDatabase, grant: Grant): unknown[] {
  const { text, values } = fence.raise(grant)
  return database.prepare(text).all(...values)
}

/** The user's own transaction: the fence, then the effect. */
function setBalance(database: RawDatabase, grant: Grant, balance: number): void {
  database.exec('begin immediate')
  try {
    const rows = raise(database, grant)
    database.prepare('update account set balance = ?').run(balance)
    fence.assertRaised(grant, rows)
    database.exec('commit')
  } catch (error) {
    database.exec('rollback')
    throw error
  }
}

function balanceIn(database: RawDatabase): unknown[] {
  return database
    .prepare('select balance from account')
    .all()
    .map((row) => ({ ...(row as object) }))
}
