-- The kernel: leases, items, locks, instances, events. `namespace` is first in every key and index.
-- Lease columns are equal on every leased row: agent, instance, token, granted_at, renewed_at, expires_at, lease_ms.
-- Times of leases are on the lease clock, all others on the wall clock; both in milliseconds.

create table namespace (
  name text primary key,
  -- Highest token a deleted row has had, so that tokens of a name only grow.
  token_floor integer not null default 0
) strict, without rowid;

-- Written once per boot: lease clock = awake time of the host + offset.
create table lease_clock (
  boot_id text primary key,
  offset_ms integer not null,
  created_at integer not null
) strict, without rowid;

create table workflow (
  namespace text not null,
  name text not null,
  definition text not null,
  version integer not null,
  primary key (namespace, name)
) strict, without rowid;

create table queue (
  namespace text not null,
  name text not null,
  workflow text not null,
  slots integer check (slots > 0),
  attempts_max integer not null check (attempts_max > 0),
  crashes_max integer not null check (crashes_max >= 0),
  paused_at integer,
  paused_by text,
  pause_reason text,
  created_at integer not null,
  version integer not null,
  primary key (namespace, name)
) strict, without rowid;

create table item (
  row integer primary key,
  namespace text not null,
  id text not null,
  queue text not null,
  workflow text not null,
  state text not null,
  standing text not null check (standing in ('ready', 'waiting', 'held', 'closed')),
  priority integer not null,
  key text,
  dedupe_key text,
  parent text,
  ancestors text not null,
  blockers text not null,
  waiting_for text not null,
  run_at integer,
  attempts integer not null,
  failures integer not null,
  crashes integer not null,
  attempts_max integer not null,
  quarantined_at integer,
  quarantine_reason text,
  cancel_requested_at integer,
  submitted_by text,
  added_at integer not null,
  started_at integer,
  state_changed_at integer not null,
  closed_at integer,
  outcome text check (outcome in ('well', 'badly')),
  previous_state text,
  version integer not null,
  agent text,
  instance text,
  token integer not null,
  granted_at integer,
  renewed_at integer,
  expires_at integer,
  lease_ms integer,
  error text,
  progress text,
  result text,
  data text not null,
  payload text not null,
  foreign key (namespace, queue) references queue (namespace, name),
  -- A holder is there exactly while the item is held, and a held item says when it was started.
  check ((standing = 'held') = (agent is not null)),
  check ((standing = 'held') = (expires_at is not null)),
  check (standing <> 'held' or started_at is not null),
  check (started_at is null or started_at <= state_changed_at),
  check ((standing = 'closed') = (outcome is not null)),
  check ((standing = 'closed') = (closed_at is not null)),
  check (standing = 'waiting' or run_at is null)
) strict;

create unique index item_id on item (namespace, id);
create unique index item_open_key on item (namespace, queue, key) where key is not null and standing <> 'closed';
create unique index item_open_dedupe on item (namespace, queue, dedupe_key) where dedupe_key is not null and standing <> 'closed';
create index item_key on item (namespace, queue, key) where key is not null;
create index item_dedupe on item (namespace, queue, dedupe_key) where dedupe_key is not null;
create index item_parent on item (namespace, parent) where parent is not null;
-- An item is in exactly one of these four, so a claim meets only what can be claimed now.
create index item_ready on item (namespace, queue, priority, added_at, id, state) where standing = 'ready';
create index item_waiting on item (namespace, queue, priority, added_at, id, state) where standing = 'waiting';
create index item_held on item (namespace, coalesce(expires_at, 0), instance, queue, state) where standing = 'held';
create index item_closed on item (namespace, queue, closed_at, state) where standing = 'closed';
create index item_due on item (namespace, run_at) where run_at is not null;
create index item_quarantined on item (namespace, queue, quarantined_at) where quarantined_at is not null;

-- Who waits for whom: an index of `waiting_for`, kept by the engine.
create table blocker (
  namespace text not null,
  blocker text not null,
  item text not null,
  primary key (namespace, blocker, item)
) strict, without rowid;

-- Items that closed well and for which more waited than one transaction frees.
create table cascade (
  namespace text not null,
  blocker text not null,
  at integer not null,
  primary key (namespace, blocker)
) strict, without rowid;

create table lock (
  namespace text not null,
  name text not null,
  slot integer not null,
  reason text,
  item text,
  acquired_at integer not null,
  version integer not null,
  agent text not null,
  instance text,
  token integer not null,
  granted_at integer not null,
  renewed_at integer not null,
  expires_at integer not null,
  lease_ms integer not null,
  primary key (namespace, name, slot)
) strict, without rowid;

create index lock_expiry on lock (namespace, expires_at);

create table instance (
  namespace text not null,
  id text not null,
  agent text not null,
  boot_id text not null,
  pid_namespace text not null,
  host_name text not null,
  pid integer not null,
  start_time text,
  started_at integer not null,
  beat_at integer not null,
  swept_at integer,
  ended_at integer,
  end_reason text,
  version integer not null,
  primary key (namespace, id)
) strict, without rowid;

create index instance_running on instance (namespace, started_at) where ended_at is null;
create index instance_ended on instance (namespace, ended_at) where ended_at is not null;

-- Answers to mutations that carried an idempotency key.
create table answer (
  namespace text not null,
  key text not null,
  operation text not null,
  request_hash text not null,
  answer text not null,
  grants text not null,
  at integer not null,
  primary key (namespace, key)
) strict, without rowid;

create index answer_at on answer (namespace, at);

create table recovery_run (
  namespace text not null,
  id text not null,
  at integer not null,
  trigger text not null,
  by text not null,
  locks_cleaned integer not null,
  entries_reclaimed integer not null,
  quarantined integer not null,
  primary key (namespace, id)
) strict, without rowid;

create index recovery_run_at on recovery_run (namespace, at);

create table event (
  -- Grows without gaps as long as the newest event is never removed; retention keeps it.
  seq integer primary key,
  namespace text not null,
  at integer not null,
  kind text not null,
  subject text not null,
  id text not null,
  queue text,
  version integer,
  agent text,
  token integer,
  change text,
  detail text
) strict;

create index event_subject on event (namespace, subject, id, seq);

-- Events are removed from the oldest on; what they said is folded into images, from which a replay starts.
create table checkpoint (
  namespace text not null,
  name text not null,
  seq integer not null,
  at integer not null,
  digest text not null,
  version integer not null,
  primary key (namespace, name)
) strict, without rowid;

create table image (
  namespace text not null,
  subject text not null,
  id text not null,
  image text not null,
  primary key (namespace, subject, id)
) strict, without rowid;
