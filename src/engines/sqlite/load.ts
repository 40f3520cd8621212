/** One function a selector. Real SQL, parameters only; the lease clock and wall clock come with the call. */
import type { StoredEvent } from '../../domain/event.ts'
import type { Instance } from '../../domain/instance.ts'
import type { Item, Standing } from '../../domain/item.ts'
import type { Lock } from '../../domain/lock.ts'
import type { Queue } from '../../domain/queue.ts'
import type { Workflow } from '../../domain/workflow.ts'
import type {
  Answer,
  Cascade,
  Checkpoint,
  DefinedQueue,
  Dependent,
  ImageRow,
  Loaded,
  Needs,
  RecoveryRun,
  Selector,
  Selectors,
  WorkflowRow,
} from '../engine.ts'
import type { Value } from './driver.ts'
import { listItems } from './list.ts'
import { item, items, packed, type Source, select } from './rows.ts'
import { decode, tables } from './tables.ts'

export function load(source: Source, needs: Needs): Loaded<Needs> {
  const rows: Record<string, unknown> = {}
  for (const name in needs) {
    const selector = needs[name]
    rows[name] = selector
      ? (loaders[selector.select] as (source: Source, selector: Selector) => unknown)(source, selector)
      : null
  }
  return rows as Loaded<Needs>
}

type Loaders = {
  readonly [Name in keyof Selectors]: (source: Source, selector: Selectors[Name][0]) => Selectors[Name][1]
}

const selectLock = select(tables.lock)
const selectInstance = select(tables.instance)
const selectQueue = `select ${packed(tables.queue)}, workflow.definition
from queue
left join workflow on workflow.namespace = queue.namespace and workflow.name = queue.workflow`

function locks(source: Source, where: string, ...values: Value[]): Lock[] {
  return source.connection
    .all(`${selectLock}\n${where}`, source.namespace, ...values)
    .map((row) => decode<Lock>(tables.lock, row))
}

function instances(source: Source, where: string, ...values: Value[]): Instance[] {
  return source.connection
    .all(`${selectInstance}\n${where}`, source.namespace, ...values)
    .map((row) => decode<Instance>(tables.instance, row))
}

function definedQueue(row: readonly unknown[]): DefinedQueue {
  const definition = row[1] as string | null
  return {
    queue: decode<Queue>(tables.queue, row),
    definition: definition === null ? null : (JSON.parse(definition) as Workflow),
  }
}

const selectOneQueue = `${selectQueue}\nwhere queue.namespace = ? and queue.name = ?`

const selectDependents = `select ${packed(tables.item)}, ${packed(tables.queue)}, workflow.definition
from blocker
join item on item.namespace = blocker.namespace and item.id = blocker.item
join queue on queue.namespace = item.namespace and queue.name = item.queue
left join workflow on workflow.namespace = queue.namespace and workflow.name = queue.workflow
where blocker.namespace = ? and blocker.blocker = ?`

const dependentsQueries = new Map<number, string>()

/** Made once for each limit, like the texts of item queries. */
function dependentsQuery(limit: number): string {
  const text = dependentsQueries.get(limit) ?? `${selectDependents}\nlimit ${limit}`
  dependentsQueries.set(limit, text)
  return text
}

function dependent([item, ...queue]: readonly unknown[]): Dependent {
  return { item: decode<Item>(tables.item, [item]), ...definedQueue(queue) }
}

/** A row whose JSON was damaged cannot be decided on; it must not keep others from healing. */
const readable =
  'and json_valid(data) and json_valid(waiting_for) and json_valid(ancestors) and json_valid(blockers)'

/** What others still wait for stays, or nobody could say why they wait. */
const unneeded =
  'and not exists (select 1 from blocker where blocker.namespace = item.namespace and blocker.blocker = item.id)'

const inList = (values: readonly string[]) => JSON.stringify(values)
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

const loaders: Loaders = {
  item(source, { queue, ref }) {
    const byId = uuid.test(ref) ? item(source, 'where namespace = ? and id = ?', ref) : null
    if (byId) return queue === null || byId.queue === queue ? byId : null
    if (queue === null) return null
    return item(
      source,
      "where namespace = ? and queue = ? and key = ?\norder by standing = 'closed', added_at desc, id desc\nlimit 1",
      queue,
      ref,
    )
  },

  itemsById: (source, { ids }) =>
    items(source, 'where namespace = ? and id in (select value from json_each(?))', inList(ids)),

  openItemByKey: (source, { queue, key }) =>
    item(source, "where namespace = ? and queue = ? and key = ? and standing <> 'closed'", queue, key),

  openItemByDedupeKey: (source, { queue, dedupeKey }) =>
    item(
      source,
      "where namespace = ? and queue = ? and dedupe_key = ? and standing <> 'closed'",
      queue,
      dedupeKey,
    ),

  lastItemByDedupeKey: (source, { queue, dedupeKey }) =>
    item(
      source,
      "where namespace = ? and queue = ? and dedupe_key = ?\norder by standing = 'closed', added_at desc, id desc\nlimit 1",
      queue,
      dedupeKey,
    ),

  claimable: (source, { queue, limit }) =>
    items(
      source,
      `where namespace = ? and queue = ? and standing = 'ready'\norder by priority, added_at, id\nlimit ${limit}`,
      queue,
    ),

  lockedItems: (source, { name }) =>
    items(
      source,
      'where namespace = ?1 and id in (select item from lock where lock.namespace = ?1 and name = ?2)',
      name,
    ),

  lapsedItems(source, { queue, limit }) {
    const one = queue === null ? '' : 'and queue = ?'
    const name = queue === null ? [] : [queue]
    return items(
      source,
      `where namespace = ? and standing = 'held' and coalesce(expires_at, 0) < ? ${one} ${readable}\norder by coalesce(expires_at, 0)\nlimit ${limit}`,
      BigInt(source.now),
      ...name,
    )
  },

  lapsedLocks(source, { name, limit }) {
    const one = name === null ? '' : 'and name = ?'
    const names = name === null ? [] : [name]
    return locks(
      source,
      `where namespace = ? and expires_at < ? ${one}\norder by expires_at\nlimit ${limit}`,
      BigInt(source.now),
      ...names,
    )
  },

  itemsOfInstances(source, { instances, queue, limit }) {
    const one = queue === null ? '' : 'and queue = ?'
    const name = queue === null ? [] : [queue]
    return items(
      source,
      `where namespace = ? and standing = 'held' and instance in (select value from json_each(?)) ${one}\nlimit ${limit}`,
      inList(instances),
      ...name,
    )
  },

  locksOfInstances(source, { instances, name, limit }) {
    const one = name === null ? '' : 'and name = ?'
    const names = name === null ? [] : [name]
    return locks(
      source,
      `where namespace = ? and instance in (select value from json_each(?)) ${one}\nlimit ${limit}`,
      inList(instances),
      ...names,
    )
  },

  silentItems: (source, { queue, thresholdMs, limit }) =>
    items(
      source,
      `where namespace = ? and standing = 'held' and queue = ? and max(coalesce(granted_at, 0), coalesce(renewed_at, 0)) <= ?\norder by max(coalesce(granted_at, 0), coalesce(renewed_at, 0))\nlimit ${limit}`,
      queue,
      BigInt(source.now - thresholdMs),
    ),

  dueItems: (source, { limit }) =>
    items(
      source,
      `where namespace = ? and run_at <= ?\norder by run_at\nlimit ${limit}`,
      BigInt(source.wall),
    ),

  nextDueAt: (source) =>
    (source.connection.get(
      'select run_at from item where namespace = ? and run_at is not null order by run_at limit 1',
      source.namespace,
    )?.[0] ?? null) as number | null,

  dependents(source, { ids, limit }) {
    return ids.flatMap((id) =>
      source.connection.all(dependentsQuery(limit), source.namespace, id).map(dependent),
    )
  },

  freedDependents(source, { limit }) {
    const cascades = source.connection
      .all(`${select(tables.cascade)}\nwhere namespace = ?\nlimit 10`, source.namespace)
      .map((row) => decode<Cascade>(tables.cascade, row))
    const waiting = cascades.map((cascade) => ({
      cascade,
      dependents: source.connection
        .all(dependentsQuery(limit), source.namespace, cascade.blocker)
        .map((row) => ({ ...dependent(row), blocker: cascade.blocker })),
    }))
    return {
      dependents: waiting.flatMap(({ dependents }) => dependents).slice(0, limit),
      finished: waiting.filter(({ dependents }) => dependents.length === 0).map(({ cascade }) => cascade),
    }
  },

  items: listItems,

  line(source, { queue, priority, addedAt, id, limit }) {
    const ready = "select 1 from item where namespace = ? and queue = ? and standing = 'ready'"
    const count = (condition: string, ...values: Value[]) =>
      Number(
        source.connection.get(
          `select count(*) from (${ready} ${condition} limit ${limit})`,
          source.namespace,
          queue,
          ...values,
        )?.[0],
      )
    const ahead =
      addedAt === null || id === null
        ? count('and priority <= ?', BigInt(priority))
        : count('and (priority, added_at, id) < (?, ?, ?)', BigInt(priority), BigInt(addedAt), id)
    return { ahead, total: count('') }
  },

  counts(source, { queue }) {
    const byState: Record<string, number> = {}
    const byStanding: Record<Standing, number> = { ready: 0, waiting: 0, held: 0, closed: 0 }
    for (const standing of Object.keys(byStanding) as Standing[]) {
      const sql = `select state, count(*) from item where namespace = ? and queue = ? and standing = '${standing}' group by state`
      for (const [state, count] of source.connection.all(sql, source.namespace, queue) as [
        string,
        number,
      ][]) {
        byState[state] = (byState[state] ?? 0) + count
        byStanding[standing] += count
      }
    }
    const quarantined = source.connection.get(
      'select count(*) from item where namespace = ? and queue = ? and quarantined_at is not null',
      source.namespace,
      queue,
    )
    const oldest = source.connection.get(
      "select min(added_at) from item where namespace = ? and queue = ? and standing = 'ready'",
      source.namespace,
      queue,
    )
    return {
      byState,
      byStanding,
      quarantined: Number(quarantined?.[0]),
      oldestReadyAt: (oldest?.[0] ?? null) as number | null,
    }
  },

  closedBefore(source, { queue, ageMs, limit }) {
    const one =
      queue === null ? 'queue in (select name from queue where namespace = item.namespace)' : 'queue = ?'
    const names = queue === null ? [] : [queue]
    return items(
      source,
      `where namespace = ? and ${one} and standing = 'closed' and closed_at <= ? ${unneeded}\nlimit ${limit}`,
      ...names,
      BigInt(source.wall - ageMs),
    )
  },

  queue(source, { name }) {
    const key = `${source.namespace}\n${name}`
    const known = source.queues.get(key)
    if (known !== undefined) return known
    const row = source.connection.get(selectOneQueue, source.namespace, name)
    const found = row ? definedQueue(row) : null
    source.queues.set(key, found)
    return found
  },

  queues(source, { names }) {
    const some = names === null ? '' : 'and queue.name in (select value from json_each(?))'
    const list = names === null ? [] : [inList(names)]
    return source.connection
      .all(`${selectQueue}\nwhere queue.namespace = ? ${some}\nlimit 10000`, source.namespace, ...list)
      .map(definedQueue)
  },

  workflow(source, { name }) {
    const row = source.connection.get(
      `${select(tables.workflow)}\nwhere namespace = ? and name = ?`,
      source.namespace,
      name,
    )
    return row ? decode<WorkflowRow>(tables.workflow, row) : null
  },

  lock: (source, { name }) => locks(source, 'where namespace = ? and name = ?\norder by slot', name),

  locksByRef: (source, { refs }) =>
    refs.length === 0
      ? []
      : locks(
          source,
          "where namespace = ? and name || '#' || slot in (select value from json_each(?))",
          inList(refs),
        ),

  instances: (source, { ids }) =>
    instances(source, 'where namespace = ? and id in (select value from json_each(?))', inList(ids)),

  runningInstances: (source, { limit }) =>
    instances(source, `where namespace = ? and ended_at is null\norder by started_at\nlimit ${limit}`),

  instancesEndedBefore: (source, { ageMs, limit }) =>
    instances(
      source,
      `where namespace = ? and ended_at < ?\norder by ended_at\nlimit ${limit}`,
      BigInt(source.wall - ageMs),
    ),

  answer(source, { key }) {
    const row = source.connection.get(
      `${select(tables.answer)}\nwhere namespace = ? and key = ?`,
      source.namespace,
      key,
    )
    return row ? decode<Answer>(tables.answer, row) : null
  },

  answersBefore: (source, { ageMs, limit }) =>
    source.connection
      .all(
        `${select(tables.answer)}\nwhere namespace = ? and at < ?\norder by at\nlimit ${limit}`,
        source.namespace,
        BigInt(source.wall - ageMs),
      )
      .map((row) => decode<Answer>(tables.answer, row)),

  recoveryHistory(source) {
    const last = source.connection.get(
      `${select(tables.recoveryRun)}\nwhere namespace = ?\norder by at desc\nlimit 1`,
      source.namespace,
    )
    const sums = source.connection.get(
      'select coalesce(sum(locks_cleaned), 0), coalesce(sum(entries_reclaimed), 0) from recovery_run where namespace = ?',
      source.namespace,
    )
    return {
      last: last ? decode<RecoveryRun>(tables.recoveryRun, last) : null,
      locksCleaned: Number(sums?.[0]),
      entriesReclaimed: Number(sums?.[1]),
    }
  },

  lapsedCounts(source, { queue, name }) {
    const count = (sql: string, ...values: Value[]) =>
      Number(source.connection.get(sql, source.namespace, BigInt(source.now), ...values)?.[0])
    const inQueue = queue === null ? [] : [queue]
    const named = name === null ? [] : [name]
    return {
      items: count(
        `select count(*) from item where namespace = ? and standing = 'held' and coalesce(expires_at, 0) < ? ${queue === null ? '' : 'and queue = ?'}`,
        ...inQueue,
      ),
      locks: count(
        `select count(*) from lock where namespace = ? and expires_at < ? ${name === null ? '' : 'and name = ?'}`,
        ...named,
      ),
    }
  },

  events(source, { since, limit, subject, id, newest }) {
    const conditions = ['namespace = ?', 'seq > ?']
    const values: Value[] = [source.namespace, BigInt(since)]
    if (subject !== null) {
      conditions.push('subject = ?')
      values.push(subject)
    }
    if (id !== null) {
      conditions.push('id = ?')
      values.push(id)
    }
    const sql = `select ${eventColumns.join(', ')}
from event
where ${conditions.join(' and ')}
order by seq ${newest ? 'desc' : 'asc'}
limit ${limit}`
    const rows = source.connection.all(sql, ...values).map(event)
    return newest ? rows.reverse() : rows
  },

  checkpoint(source) {
    const row = source.connection.get(
      `${select(tables.checkpoint)}\nwhere namespace = ? and name = 'events'`,
      source.namespace,
    )
    return row ? decode<Checkpoint>(tables.checkpoint, row) : null
  },

  images: (source, { keys }) =>
    keys.flatMap(({ subject, id }) => {
      const row = source.connection.get(
        `${select(tables.image)}\nwhere namespace = ? and subject = ? and id = ?`,
        source.namespace,
        subject,
        id,
      )
      return row ? [decode<ImageRow>(tables.image, row)] : []
    }),

  imagePage: (source, { after, limit }) =>
    source.connection
      .all(
        `${select(tables.image)}\nwhere namespace = ? and (subject, id) > (?, ?)\norder by subject, id\nlimit ${limit}`,
        source.namespace,
        after?.subject ?? '',
        after?.id ?? '',
      )
      .map((row) => decode<ImageRow>(tables.image, row)),

  tokenFloor: (source) =>
    Number(
      source.connection.get('select token_floor from namespace where name = ?', source.namespace)?.[0] ?? 0,
    ),
}

const eventColumns = [
  'seq',
  'at',
  'kind',
  'subject',
  'id',
  'queue',
  'version',
  'agent',
  'token',
  'change',
  'detail',
] as const

function event(row: readonly unknown[]): StoredEvent {
  const fields = Object.fromEntries(eventColumns.map((name, index) => [name, row[index]]))
  return { ...fields, change: parse(fields.change), detail: parse(fields.detail) } as StoredEvent
}

function parse(text: unknown): unknown {
  return typeof text === 'string' ? JSON.parse(text) : null
}

/** Is anything stale, is anything due? One cheap look, so that a claim with neither pays next to nothing. */
export function lookAhead(source: Source): { stale: boolean; due: boolean } {
  const sql = `select exists (select 1 from item where namespace = ?1 and standing = 'held' and coalesce(expires_at, 0) < ?2)
or exists (select 1 from lock where namespace = ?1 and expires_at < ?2),
exists (select 1 from item where namespace = ?1 and run_at <= ?3)
or exists (select 1 from cascade where namespace = ?1)`
  const [stale, due] =
    source.connection.get(sql, source.namespace, BigInt(source.now), BigInt(source.wall)) ?? []
  return { stale: stale === 1, due: due === 1 }
}
