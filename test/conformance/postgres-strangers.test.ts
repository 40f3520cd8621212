/** A database that is shared with a hostile role: nothing of hers runs as the role that Holdfast uses. */
import type { Holdfast } from 'holdfast'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { Pooler } from '../support/pooler.ts'
import type { Server } from '../support/server.ts'
import { type RoleName, sharedDatabase } from '../support/strangers.ts'

const [url] = [process.env.HOLDFAST_TEST_POSTGRES_URL ?? [], inject('postgresUrls' as never) ?? []].flat()

describe.skipIf(url === undefined)('a hostile role in the same database', () => {
  const shared = sharedDatabase(url as unknown as string)

  /** Some of everything that is sent to a server: writes, reads of one statement and of several, filters, a doctor. */
  async function work(hf: Holdfast): Promise<void> {
    const task = await hf.tasks.addTask('work', { labels: ['urgent'], owner: 'ada' })
    await hf.state('document').set({ text: 'a' })
    await hf.fleet.doctor()
    const listed = await hf.tasks.listTasks({ labels: ['urgent'], owner: 'ada' })
    const claim = await hf.tasks.claimNext({ labels: ['urgent'] })

    expect(listed.tasks.map(({ id }) => id)).toEqual([task.id])
    expect(claim).toMatchObject({ outcome: 'claimed', task: { id: task.id } })
  }

  async function pooled(role: RoleName, schema: string): Promise<string> {
    const store = shared.url(role, schema, { isTcp: true })
    const pooler = await Pooler.open({ url: store.split('?')[0] } as Server, 2)
    onTestFinished(() => pooler.close())
    return `${pooler.through(store)}&wake=off&prepare=false`
  }

  /** On a connection of our own, behind a pooler, and behind a pooler with a direct way to listen. */
  const ways = {
    'a connection of our own': async (role: RoleName, schema: string) => shared.url(role, schema),
    'a pooler': pooled,
    'a pooler beside a direct connection': async (role: RoleName, schema: string) => {
      const direct = encodeURIComponent(shared.url(role, schema))
      return (await pooled(role, schema)).replace('wake=off', `wake=${direct}`)
    },
  }

  describe.each(Object.entries(ways))('by way of %s', (_, urlFor) => {
    test('her function does not run, even if it matches a call better than the intended one [S5d-9]', async () => {
      await shared.as('mallory', trap('hashtextextended(text, integer)', 'bigint', '1'))
      const hf = await shared.open(await urlFor('app', shared.newSchema()))

      await work(hf)

      expect(await shared.seen()).toEqual([])
    })

    test('nor do her functions and operators that the role’s own search path would find first [S5d-9]', async () => {
      await shared.as('mallory', traps.join(';'))
      await shared.as('superuser', `alter role ${shared.role('app')} set search_path = public, pg_catalog`)
      onTestFinished(() => shared.as('superuser', `alter role ${shared.role('app')} reset search_path`))
      const hf = await shared.open(await urlFor('app', shared.newSchema()))

      await work(hf)

      expect(await shared.seen()).toEqual([])
    })
  })

  test('the functions of a store call none of hers, whoever calls them with whatever search path [S5d-9]', async () => {
    const schema = shared.newSchema()
    await shared.open(shared.url('app', schema))
    await shared.as('mallory', traps.join(';'))

    await shared.as(
      'app',
      `set search_path = public, pg_catalog;
       select ${schema}.now_ms(), ${schema}.wall_ms(), ${schema}.event_base(), ${schema}.json_field('{"a":"b"}', 'a'),
         ${schema}.has_labels('{"labels":["a"]}', array['a']), ${schema}.is_json('{}'), ${schema}.expect(1, 1)`,
    )

    expect(await shared.seen()).toEqual([])
  })

  /** A store of app's, and what mallory can do to it, or somebody for her. */
  const intrusions: Readonly<Record<string, readonly [as: RoleName, sql: string, told: string][]>> = {
    'a table of hers': [
      ['superuser', 'alter table holdfast.event owner to MALLORY', 'the table event belongs to'],
    ],
    'a function of hers': [
      [
        'superuser',
        'alter function holdfast.expect(bigint, bigint) owner to MALLORY',
        'the function expect belongs to',
      ],
    ],
    'a trigger of hers': [
      ['app', 'grant usage on schema holdfast to MALLORY; grant trigger on holdfast.event to MALLORY', ''],
      [
        'mallory',
        `${trap('spy()', 'trigger', 'null')};
         create trigger spy after insert on holdfast.event for each statement execute function public.spy()`,
        'the trigger spy on event runs a function of',
      ],
      ['app', 'revoke trigger on holdfast.event from MALLORY', ''],
    ],
    'a rule': [
      [
        'app',
        'create rule spy as on insert to holdfast.event do also insert into public.seen values (current_user)',
        'the rule spy on event',
      ],
    ],
    'a policy': [['app', 'create policy spy on holdfast.item using (true)', 'a policy, spy on item']],
    'rows hidden from it': [
      [
        'app',
        'alter table holdfast.item enable row level security, force row level security',
        'hides rows of the table item',
      ],
    ],
    'her right to make functions in it': [
      ['app', 'grant create on schema holdfast to MALLORY', 'may create functions'],
    ],
    'her right to add triggers': [
      ['app', 'grant all on all tables in schema holdfast to MALLORY', 'may add triggers'],
    ],
    'a foreign key of hers, whose deferred triggers older servers run as whoever commits': [
      [
        'app',
        'grant usage on schema holdfast to MALLORY; grant references (namespace, key) on holdfast.state to MALLORY',
        '',
      ],
      [
        'mallory',
        `create table public.child (namespace text, key text,
           foreign key (namespace, key) references holdfast.state on delete cascade);
         insert into public.child values ('default', 'deleted');
         ${trap('noted()', 'trigger', 'null')};
         create constraint trigger noted after delete on public.child
           deferrable initially deferred for each row execute function public.noted()`,
        'a foreign key of the table public.child',
      ],
      ['app', 'revoke references (namespace, key) on holdfast.state from MALLORY', ''],
    ],
    'her right to make such keys': [
      ['app', 'grant references on holdfast.state to MALLORY', 'may refer to the table state'],
    ],
    'her right to make such keys on some columns': [
      [
        'app',
        'grant references (namespace, key) on holdfast.state to MALLORY',
        'may refer to the table state',
      ],
    ],
    'such a right of everybody': [
      ['app', 'grant create on schema holdfast to public', 'everybody may create'],
    ],
  }

  test.each(Object.entries(intrusions))(
    'a store with %s is refused, and nothing of it runs [S5d-9]',
    async (_, steps) => {
      const schema = shared.newSchema()
      const maker = await shared.open(shared.url('app', schema))
      await maker.state('deleted').set(1)
      await maker.close()
      for (const [role, sql] of steps) await shared.as(role, written(sql, schema))

      const error = await refusal(async () => {
        const hf = await shared.open(shared.url('app', schema))
        await work(hf)
        await hf.state('deleted').delete()
      })
      await shared.as('superuser', 'drop table if exists public.child')

      expect(error).toMatchObject({ code: 'STORE_UNFIT' })
      expect(error.message).toContain(steps.find(([, , told]) => told !== '')?.[2])
      expect(error.message).toContain('allowUnsafeSchema=true')
      expect(await shared.seen()).toEqual([])
    },
  )

  test('a store that would be refused once created is not created [S5d-9]', async () => {
    const schema = shared.newSchema()
    const byDefault = (sql: string) => shared.as('app', written(`alter default privileges ${sql}`, schema))
    await byDefault('grant all on tables to MALLORY')
    onTestFinished(() => byDefault('revoke all on tables from MALLORY'))

    const error = await refusal(() => shared.open(shared.url('app', schema)))

    expect(error).toMatchObject({ code: 'STORE_UNFIT' })
    expect(error.message).toContain(`${shared.role('mallory')} may add triggers`)
    await shared.as('app', `create schema ${schema}`)
  })

  /** For a schema, and the roles of this file. */
  function written(sql: string, schema: string): string {
    return sql
      .replaceAll(/\bholdfast\b/g, schema)
      .replaceAll('MALLORY', shared.role('mallory'))
      .replaceAll('FLEET', shared.role('fleet'))
      .replaceAll('APP', shared.role('app'))
  }

  /** She had the name first, and left room for others. */
  async function storeOfMallory(): Promise<string> {
    const schema = shared.newSchema()
    await (await shared.open(shared.url('mallory', schema))).close()
    const bait = `grant usage on schema holdfast to public;
      grant select, insert, update, delete on all tables in schema holdfast to public;
      create or replace function holdfast.wall_ms() returns bigint language plpgsql as
      $$ begin insert into public.seen values (current_user); return 1; end $$`
    await shared.as('mallory', written(bait, schema))
    return schema
  }

  test.each([
    ['app', 'a connection of our own'],
    ['superuser', 'a connection of our own'],
    ['landlord', 'a pooler'],
    ['app', 'a pooler beside a direct connection'],
  ] as const)(
    'her store is refused to %s by way of %s, and none of her code runs [S5d-9]',
    async (role, way) => {
      const schema = await storeOfMallory()

      const error = await refusal(async () => shared.open(await ways[way](role, schema)))

      expect(error).toMatchObject({ code: 'STORE_UNFIT' })
      expect(error.message).toContain(`the schema ${schema} belongs to ${shared.role('mallory')}`)
      expect(await shared.seen()).toEqual([])
    },
  )

  test.each([
    ['by herself, as servers before 16 let her', 'mallory', 'grant MALLORY to APP'],
    [
      'for its administration alone, as servers since 16 do for who creates a role',
      'superuser',
      'grant MALLORY to APP with admin true, inherit false, set false',
    ],
  ] as const)('a role that was made a member of hers %s does not trust her [S5d-9]', async (_, role, sql) => {
    const schema = await storeOfMallory()
    // Where the server does not know the statement or refuses it, there is nothing to defend against.
    await shared.as(role, written(sql, schema)).catch(() => {})
    onTestFinished(() => shared.as('superuser', written('revoke MALLORY from APP cascade', schema)))

    const error = await refusal(() => shared.open(shared.url('app', schema)))

    expect(error).toMatchObject({ code: 'STORE_UNFIT' })
    expect(await shared.seen()).toEqual([])
  })

  test('the URL can accept such a store as it is [S5d-9]', async () => {
    const schema = await storeOfMallory()

    await shared.open(`${shared.url('app', schema)}&allowUnsafeSchema=true`)

    expect(await shared.seen()).toContain(shared.role('app'))
  })

  const grantUse = `grant usage on schema holdfast to APP;
    grant select, insert, update, delete on all tables in schema holdfast to APP;
    grant usage on all sequences in schema holdfast to APP`

  test.each([
    ['the owner of the database', 'landlord', 'a connection of our own'],
    ['a superuser', 'superuser', 'a connection of our own'],
    ['a superuser', 'superuser', 'a pooler'],
    ['a superuser', 'superuser', 'a pooler beside a direct connection'],
  ] as const)(
    'a store of %s can be used by a role that was granted the rights [S5d-9]',
    async (_, owner, way) => {
      const schema = shared.newSchema()
      await (await shared.open(shared.url(owner, schema))).close()
      await shared.as(owner, written(grantUse, schema))

      await work(await shared.open(await ways[way]('app', schema)))
    },
  )

  test('a store of a group can be created and used by its members [S5d-9]', async () => {
    const schema = shared.newSchema()
    await shared.as(
      'superuser',
      written('grant FLEET to APP; create schema holdfast authorization FLEET', schema),
    )
    onTestFinished(() => shared.as('superuser', written('revoke FLEET from APP cascade', schema)))

    await (await shared.open(shared.url('app', schema))).close()
    await shared.as('app', written('alter table holdfast.item owner to FLEET', schema))

    await work(await shared.open(shared.url('app', schema)))
  })

  /** What everybody can see: the numbers of the locks a claim takes, while it is held up by a lock on a table. */
  async function numbersOfClaim(hf: Holdfast, schema: string): Promise<string[]> {
    const holder = await shared.session('superuser', `begin; lock table ${schema}.item in exclusive mode`)
    const claim = hf.queue('q').next()
    const watcher = await shared.session('mallory', '')
    for (;;) {
      const { rows } = await watcher.query<{ number: string }>(
        `select ((classid::bigint << 32) | objid::bigint)::text as number from pg_locks
         where locktype = 'advisory' and objsubid = 1 and granted
         and database = (select oid from pg_database where datname = current_database())`,
      )
      if (rows.length === 0) continue
      await holder.query('rollback')
      await claim
      return rows.map(({ number }) => number)
    }
  }

  test('a role that may only connect can block claims, and doctor names it until it lets go [S5d-10]', async () => {
    const schema = shared.newSchema()
    const hf = await shared.open(shared.url('app', schema), { busyTimeoutMs: 60_000 })
    const other = await shared.open(shared.url('app', schema))
    const numbers = await numbersOfClaim(hf, schema)
    const locks = () =>
      other.fleet.doctor().then(({ findings }) => findings.filter(({ check }) => check === 'locks'))
    const mallory = await shared.session(
      'mallory',
      numbers.map((number) => `select pg_advisory_lock(${number})`).join(';'),
    )

    const claim = hf.queue('q').next()
    let named = await locks()
    while (named.length === 0) named = await locks()
    await mallory.query('select pg_advisory_unlock_all()')

    expect(named).toEqual([
      expect.objectContaining({
        level: 'error',
        what: expect.stringContaining(`of ${shared.role('mallory')} holds an advisory lock of this store`),
        remedy: expect.stringContaining('revoke connect'),
      }),
    ])
    expect(await claim).toMatchObject({ outcome: 'empty' })
    expect(await locks()).toEqual([])
  })

  /** In so many words, because another test may have made a function of that name that this role would prefer. */
  const lockOfMaking = (schema: string) =>
    `select pg_advisory_lock(pg_catalog.hashtextextended('holdfast schema ${schema}', 0::bigint))`

  test('holding the lock for creating stores does not block one that exists [S5d-10]', async () => {
    const schema = shared.newSchema()
    await (await shared.open(shared.url('app', schema))).close()
    await shared.session('mallory', lockOfMaking(schema))

    const hf = await shared.open(shared.url('app', schema), { busyTimeoutMs: 200 })
    const { findings, healthy } = await hf.fleet.doctor()

    await work(hf)
    expect(healthy).toBe(true)
    expect(findings.filter(({ check }) => check === 'locks')).toEqual([
      expect.objectContaining({
        level: 'notice',
        what: expect.stringContaining(`of ${shared.role('mallory')}, which does not use this store`),
      }),
    ])
  })

  test('holding that lock blocks the creation of a store, and the error says so [S5d-10]', async () => {
    const schema = shared.newSchema()
    const mallory = await shared.session('mallory', lockOfMaking(schema))

    const refused = await refusal(() => shared.open(shared.url('app', schema), { busyTimeoutMs: 200 }))
    const { rows } = await mallory.query(`select 1 from pg_namespace where nspname = '${schema}'`)
    await mallory.query('select pg_advisory_unlock_all()')

    expect(refused).toMatchObject({
      code: 'BUSY',
      what: expect.stringContaining('advisory lock'),
      next: expect.stringContaining('revoke connect'),
    })
    expect(rows).toEqual([])
    await work(await shared.open(shared.url('app', schema)))
  })

  test('triggers, tables, keys and functions of the own role do not count as another’s [S5d-9]', async () => {
    const schema = shared.newSchema()
    await (await shared.open(shared.url('app', schema))).close()
    const own = `create table holdfast.audit (
        namespace text, key text, foreign key (namespace, key) references holdfast.state on delete cascade);
      create function holdfast.note() returns trigger language plpgsql as $$ begin return null; end $$;
      create trigger noted after insert on holdfast.event for each statement execute function holdfast.note()`
    await shared.as('app', written(own, schema))

    await work(await shared.open(shared.url('app', schema)))
  })
})

/** Notes as whom it was run, and answers. */
function trap(signature: string, type: string, answer: string): string {
  return `create or replace function public.${signature} returns ${type} language plpgsql as
    $$ begin insert into public.seen values (current_user); return ${answer}; end $$`
}

const traps = [
  trap('pg_is_in_recovery()', 'boolean', 'false'),
  trap('current_setting(text)', 'text', 'pg_catalog.current_setting($1)'),
  trap('set_config(text, text, boolean)', 'text', 'pg_catalog.set_config($1, $2, $3)'),
  trap('pg_backend_pid()', 'integer', 'pg_catalog.pg_backend_pid()'),
  trap('clock_timestamp()', 'timestamptz', 'pg_catalog.clock_timestamp()'),
  trap('pg_postmaster_start_time()', 'timestamptz', 'pg_catalog.pg_postmaster_start_time()'),
  trap('hashtextextended(text, bigint)', 'bigint', '1'),
  trap('json_typeof(json)', 'text', 'pg_catalog.json_typeof($1)'),
  trap('regexp_replace(text, text, text, text)', 'text', 'pg_catalog.regexp_replace($1, $2, $3, $4)'),
  trap('is_same(text, text)', 'boolean', '$1 operator(pg_catalog.=) $2'),
  `drop operator if exists public.= (text, text);
   create operator public.= (leftarg = text, rightarg = text, function = public.is_same)`,
]
