/** A database that several roles share, one of them hostile. Gone after the last test of the file. */
import { randomBytes } from 'node:crypto'
import { type OpenOptions, open } from 'holdfast'
import { Client } from 'pg'
import { afterAll, beforeAll, onTestFinished } from 'vitest'

/** `app` runs Holdfast, `mallory` is hostile, `fleet` is a group nobody logs in as, `landlord` owns the database. */
const roles = ['app', 'mallory', 'fleet', 'landlord'] as const
export type RoleName = (typeof roles)[number] | 'superuser'

export interface SharedDatabase {
  /** The role's name on the server; those of another file have other names. */
  role(name: Exclude<RoleName, 'superuser'>): string
  /** The URL of a store as this role opens it; over the network where `isTcp`, for poolers stand there. */
  url(name: RoleName, schema: string, options?: { isTcp?: boolean }): string
  /** Runs statements as this role. */
  as(name: RoleName, sql: string): Promise<void>
  /** The same in a session that stays open until the test has ended. */
  session(name: RoleName, sql: string): Promise<Client>
  newSchema(): string
  /** Opens the store and closes it after the test. */
  open(url: string, options?: OpenOptions): ReturnType<typeof open>
  /** What mallory's functions recorded: the roles they ran as. */
  seen(): Promise<string[]>
}

/** `server` is the URL of a superuser. */
export function sharedDatabase(server: string): SharedDatabase {
  const suffix = randomBytes(4).toString('hex')
  const database = `shared_${suffix}`
  const nameOf = (name: string) => `${name}_${suffix}`
  let schemas = 0

  const urlOf = (name: RoleName, to = database) => {
    const [, credentials, rest] = /^postgres:\/\/([^@]*)@([^/]*)\//.exec(server) ?? []
    const login = name === 'superuser' ? credentials : `${nameOf(name)}:secret`
    return `postgres://${login}@${rest}/${to}`
  }
  const query = async (url: string, ...statements: readonly string[]) => {
    const client = new Client({ connectionString: url })
    await client.connect()
    try {
      const answers = []
      for (const each of statements) answers.push(await client.query(each))
      return answers.at(-1)?.rows ?? []
    } finally {
      await client.end()
    }
  }

  beforeAll(async () => {
    await query(
      server,
      ...roles.map(
        (name) => `create role ${nameOf(name)} ${name === 'fleet' ? 'nologin' : 'login'} password 'secret'`,
      ),
      `create database ${database} owner ${nameOf('landlord')} template template0`,
      `grant create on database ${database} to ${nameOf('app')}, ${nameOf('mallory')}`,
    )
    await query(
      urlOf('superuser'),
      'grant create on schema public to public',
      'create table public.seen (who text)',
      'grant insert on public.seen to public',
    )
  })
  afterAll(async () => {
    await query(
      server,
      `drop database ${database} with (force)`,
      ...roles.map((name) => `drop role ${nameOf(name)}`),
    )
  })
  return {
    role: nameOf,
    url: (name, schema, { isTcp = false } = {}) => {
      const url = `${urlOf(name)}?schema=${schema}`
      return isTcp ? url.replace(/@[^:/]*:/, '@127.0.0.1:') : url
    },
    as: async (name, sql) => {
      await query(urlOf(name), sql)
    },
    async session(name, sql) {
      const client = new Client({ connectionString: urlOf(name) })
      await client.connect()
      onTestFinished(() => client.end())
      await client.query(sql)
      return client
    },
    newSchema: () => `store_${++schemas}`,
    async open(url, options = {}) {
      const hf = await open(url, { background: false, logger: false, ...options })
      onTestFinished(() => hf.close())
      return hf
    },
    seen: async () =>
      (await query(urlOf('superuser'), 'delete from public.seen returning who')).map(({ who }) => who),
  }
}
