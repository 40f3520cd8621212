-- Named locks: who asked and for which run, slots, re-entry, delay after a loss, reservations of paths; the line of
-- those who wait; progress of runs. Times of leases are on the lease clock, all others on the wall clock.

-- The person or system on whose behalf the lock is held.
alter table lock add column user text;
-- What the lock is held for; progress is attached to it.
alter table lock add column run text;
-- How many may hold the lock at once; null for a processing lock, whose queue says it.
alter table lock add column slots integer check (slots > 0);
-- How often its holder has entered it.
alter table lock add column depth integer not null default 1 check (depth > 0);
-- For how long nobody gets the lock after its holder was lost.
alter table lock add column delay_ms integer not null default 0 check (delay_ms >= 0);
-- Not null: nobody holds it; the row keeps others out until `expires_at`.
alter table lock add column delayed_since integer;
-- A reservation: glob patterns as JSON, and whether others may share them.
alter table lock add column patterns text check (patterns is null or json_valid(patterns));
alter table lock add column mode text check (mode in ('shared', 'exclusive'));

create index lock_reservation on lock (namespace, name) where patterns is not null;

-- A place in the line for a lock: a lease of its own, whose token is the ticket.
create table lock_waiter (
  namespace text not null,
  id text not null,
  name text not null,
  joined_at integer not null,
  version integer not null,
  agent text not null,
  instance text,
  token integer not null,
  granted_at integer not null,
  renewed_at integer not null,
  expires_at integer not null,
  lease_ms integer not null,
  primary key (namespace, id)
) strict, without rowid;

create unique index lock_waiter_line on lock_waiter (namespace, name, token);
create index lock_waiter_expiry on lock_waiter (namespace, expires_at);

create table progress (
  namespace text not null,
  run text not null,
  -- The lock under which it runs, and the grant that may write.
  lock text not null,
  token integer not null,
  status text not null check (status in ('running', 'paused', 'completed', 'failed')),
  total integer check (total >= 0),
  done integer not null check (done >= 0),
  failed integer not null check (failed >= 0),
  skipped integer not null check (skipped >= 0),
  cursor text check (cursor is null or json_valid(cursor)),
  completion text not null check (completion in ('processed', 'successful')),
  pause_reason text,
  started_at integer not null,
  updated_at integer not null,
  ended_at integer,
  -- Since when it runs, on the lease clock; null while it does not.
  running_since integer,
  -- How long it ran before that.
  active_ms integer not null check (active_ms >= 0),
  version integer not null,
  primary key (namespace, run),
  check ((status = 'running') = (running_since is not null)),
  check ((status = 'completed') = (ended_at is not null))
) strict, without rowid;

create index progress_running on progress (namespace, lock, token) where status = 'running';
create index progress_ended on progress (namespace, ended_at) where ended_at is not null;

-- What became of each item of a run, under a key that counts once.
create table outcome (
  namespace text not null,
  -- run|key
  id text not null,
  run text not null,
  key text not null,
  outcome text not null check (outcome in ('done', 'failed', 'skipped')),
  error text,
  at integer not null,
  version integer not null,
  primary key (namespace, id)
) strict, without rowid;

create index outcome_of_run on outcome (namespace, run, id);
