/**
 * Who owns the schema. Whoever owns a table or function of a store, or may add a trigger or a foreign key to it, can
 * run code as the role of anybody who uses it. So that must be a role that can act as ours anyway, or one that ours has
 * to trust.
 */
import { HoldfastError } from '../../errors.ts'
import type { Address } from './address.ts'

/** Ours: the schema is not safe; the detail is a list of `Fault`. */
export const unsafeSchemaCode = 'HF004'

const maxFaults = 20

interface Fault {
  readonly kind: keyof typeof descriptions
  readonly name: string
  /** Empty means everybody. */
  readonly role: string
}

/**
 * One statement that fails if the schema is not safe, for a transaction whose search path is set. Nothing in the schema
 * may be looked at before it: a stranger's table may be a view, and merely planning a statement may run a function.
 *
 * Superusers, the owner of the database, the role itself and the roles it belongs to are trusted. Membership counts if
 * an administrator granted it: before PostgreSQL 16 every role can make others its members. A superuser is not a member
 * of a role just because it may do everything.
 */
export function assertOwnSchema({ schema, allowUnsafeSchema }: SchemaAddress): string[] {
  if (allowUnsafeSchema) return []
  return [
    `do $assert$
declare
  faults json;
begin
  with recursive own (role) as (
    select r.oid
    from pg_roles r
    where r.rolname = current_user
    union
    select m.roleid
    from own
    join pg_auth_members m on m.member = own.role
    join pg_roles g on g.oid = m.grantor
    -- Servers before 16 have no such options: every member inherits the role or can switch to it.
    where (g.rolsuper or g.rolcreaterole)
      and (to_jsonb(m) ->> 'set_option' is distinct from 'false' or to_jsonb(m) ->> 'inherit_option' is distinct from 'false')
  ),
  trusted (role) as materialized (
    select own.role from own
    union all
    select r.oid from pg_roles r where r.rolsuper or r.rolname = 'pg_database_owner'
    union all
    select d.datdba from pg_database d where d.datname = current_database()
  ),
  store as materialized (
    select n.oid, n.nspname, n.nspowner, n.nspacl
    from pg_namespace n
    where n.nspname = '${schema}'
  ),
  relation as materialized (
    select c.oid, c.relname, c.relowner, c.relacl, c.relkind
    from pg_class c
    where c.relnamespace = (select s.oid from store s) and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  ),
  belonging (kind, name, role) as (
    select 'schema', s.nspname, s.nspowner
    from store s
    union all
    select 'table', c.relname, c.relowner
    from relation c
    union all
    select 'function', p.proname, p.proowner
    from pg_proc p
    where p.pronamespace = (select s.oid from store s)
    union all
    select 'trigger', t.tgname || ' on ' || c.relname, p.proowner
    from relation c
    join pg_trigger t on t.tgrelid = c.oid
    join pg_proc p on p.oid = t.tgfoid
    where not t.tgisinternal
    union all
    select 'create', s.nspname, a.grantee
    from store s
    cross join aclexplode(s.nspacl) a
    where a.privilege_type = 'CREATE'
    union all
    select 'grant', c.relname, a.grantee
    from relation c
    cross join aclexplode(c.relacl) a
    where a.privilege_type = 'TRIGGER'
    union all
    select 'reference', c.relname, a.grantee
    from relation c
    cross join aclexplode(c.relacl) a
    where a.privilege_type = 'REFERENCES'
    union all
    select 'reference', c.relname, a.grantee
    from relation c
    join pg_attribute f on f.attrelid = c.oid
    cross join aclexplode(f.attacl) a
    -- As a list, so that the server uses an index; with a join alone it reads the columns of all schemas.
    where f.attrelid = any (array(select each.oid from relation each))
      and f.attacl is not null
      and a.privilege_type = 'REFERENCES'
    union all
    -- Our deletes cascade to tables with their owner's triggers. Deferred ones run at our commit; before PostgreSQL 18, as us.
    select distinct 'key', n.nspname || '.' || o.relname, o.relowner
    from relation c
    join pg_trigger t on t.tgrelid = c.oid and t.tgisinternal
    join pg_class o on o.oid = t.tgconstrrelid
    join pg_namespace n on n.oid = o.relnamespace
  ),
  fault (kind, name, role) as (
    select b.kind, b.name, b.role
    from belonging b
    where b.role not in (select t.role from trusted t)
    union all
    select 'rule', r.rulename || ' on ' || c.relname, null
    from relation c
    join pg_rewrite r on r.ev_class = c.oid
    where c.relkind in ('r', 'p')
    union all
    select 'policy', p.polname || ' on ' || c.relname, null
    from relation c
    join pg_policy p on p.polrelid = c.oid
    union all
    select 'rows', c.relname, null
    from relation c
    where c.relkind in ('r', 'p') and row_security_active(c.oid)
  )
  select json_agg(json_build_object('kind', f.kind, 'name', f.name, 'role', coalesce(r.rolname, '')))
  into faults
  from (select * from fault limit ${maxFaults}) f
  left join pg_roles r on r.oid = f.role;
  if faults is not null then
    raise exception 'the schema is not safe' using errcode = '${unsafeSchemaCode}', detail = faults::text;
  end if;
end $assert$`,
  ]
}

type SchemaAddress = Pick<Address, 'schema' | 'allowUnsafeSchema'>

const descriptions = {
  schema: (name: string, role: string) => `the schema ${name} belongs to ${role}`,
  table: (name: string, role: string) => `the table ${name} belongs to ${role}`,
  function: (name: string, role: string) => `the function ${name} belongs to ${role}`,
  trigger: (name: string, role: string) => `the trigger ${name} runs a function of ${role}`,
  create: (name: string, role: string) => `${role} may create functions in the schema ${name}`,
  grant: (name: string, role: string) => `${role} may add triggers to the table ${name}`,
  reference: (name: string, role: string) => `${role} may refer to the table ${name} by foreign keys`,
  key: (name: string, role: string) => `a foreign key of the table ${name} of ${role} leads to this schema`,
  rule: (name: string) => `the rule ${name} changes what statements do`,
  policy: (name: string) => `there is a policy, ${name}`,
  rows: (name: string) => `row security hides rows of the table ${name} from this role`,
}

const maxShown = 3

/** The server's answer to `assertOwnSchema`, as a typed error. */
export function unsafeSchema(location: string, error: { readonly detail?: string }): HoldfastError {
  const faults = JSON.parse(error.detail ?? '[]') as Fault[]
  const shown = faults
    .slice(0, maxShown)
    .map(({ kind, name, role }) => descriptions[kind](name, role || 'everybody'))
  if (faults.length > maxShown) shown.push('and more')
  return new HoldfastError('STORE_UNFIT', {
    what: `others could run code as the role of ${location}, or change what it reads: ${shown.join('; ')}`,
    next: 'make the role of the URL, or a role it belongs to, the owner of the schema and everything in it, and revoke such rights from others; allowUnsafeSchema=true in the URL accepts it as it is',
    facts: { location, faults },
    cause: error,
  })
}
