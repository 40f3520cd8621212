-- The whole store: leases, items, locks, runs, messages, documents, instances, events.
-- `holdfast.` is replaced by the store's own schema, except inside quotes.
-- `namespace` comes first in every key and in every index except one of `instance`.
-- Every leased row has the same lease columns: agent, instance, token, granted_at, renewed_at, expires_at, lease_ms.
-- Lease times are on the lease clock, all others on the wall clock; both in milliseconds.
-- Names and ids are collated "C", so both engines order them by their bytes.
-- JSON is kept as text: jsonb refuses \u0000, and rows are read and written whole.

create table holdfast.meta (
  key text collate "C" primary key,
  value text not null
);

-- One row per connection that writes, with its last batch, so that a commit in doubt can be looked up.
create table holdfast.lane (
  id text collate "C" primary key,
  batch bigint not null,
  at bigint not null,
  -- The instance it belongs to; null until a registered instance has written.
  namespace text collate "C",
  instance text collate "C"
) with (fillfactor = 50);

-- Branches of the server's history that this store was used on. A timeline number does not identify a branch: standbys
-- promoted independently get the same number, and so do unrelated servers.
create table holdfast.timeline (
  mark text collate "C" primary key,
  system text collate "C" not null,
  timeline int not null,
  seen_at bigint not null,
  by text,
  unique (system, timeline)
);

-- The highest token that a deleted row has had, so that the tokens of a name only grow. Spread over buckets, of which
-- the highest counts, so that concurrent deletes need not wait for each other.
create table holdfast.token_floor (
  namespace text collate "C" not null,
  bucket int not null,
  floor bigint not null,
  primary key (namespace, bucket)
) with (fillfactor = 50);

create table holdfast.workflow (
  namespace text collate "C" not null,
  name text collate "C" not null,
  definition text not null,
  version bigint not null,
  primary key (namespace, name)
);

create table holdfast.queue (
  namespace text collate "C" not null,
  name text collate "C" not null,
  workflow text collate "C" not null,
  slots bigint check (slots > 0),
  max_attempts bigint not null check (max_attempts > 0),
  max_crashes bigint not null check (max_crashes >= 0),
  -- Length of leases that a process renews, and of those that nobody renews; null: the default of the process or of Holdfast.
  lease_ms bigint check (lease_ms >= 0),
  manual_lease_ms bigint check (manual_lease_ms >= 0),
  -- How the waits between retries grow, as JSON; null: Holdfast's default.
  backoff text,
  paused_at bigint,
  paused_by text,
  pause_reason text,
  created_at bigint not null,
  version bigint not null,
  primary key (namespace, name)
);

-- No foreign key to the queue, unlike in SQLite: each new item would share-lock the row of its queue with all others
-- that are being added, which costs more than the insert. Queues are never removed.
-- No checks here, unlike in SQLite: a server re-reads them for every statement, which adds a third to the cost of claiming
-- and finishing an item. The engine checks before it writes.
create table holdfast.item (
  namespace text collate "C" not null,
  id text collate "C" not null,
  queue text collate "C" not null,
  workflow text collate "C" not null,
  state text collate "C" not null,
  phase text collate "C" not null,
  priority bigint not null,
  key text collate "C",
  dedupe_key text collate "C",
  parent text collate "C",
  ancestors text not null,
  blockers text not null,
  waiting_for text not null,
  run_at bigint,
  -- Who may claim it before `run_at`.
  offered_to text collate "C",
  attempts bigint not null,
  failures bigint not null,
  crashes bigint not null,
  exposures bigint not null,
  suspected_at bigint,
  progress_at_loss text,
  crash_resets bigint not null,
  max_attempts bigint not null,
  quarantined_at bigint,
  quarantine_reason text,
  cancel_requested_at bigint,
  submitted_by text,
  added_at bigint not null,
  started_at bigint,
  state_changed_at bigint not null,
  closed_at bigint,
  outcome text collate "C",
  previous_state text,
  version bigint not null,
  agent text collate "C",
  instance text collate "C",
  token bigint not null,
  granted_at bigint,
  renewed_at bigint,
  expires_at bigint,
  lease_ms bigint,
  -- The machine that made a manual claim.
  holder_host text collate "C",
  error text,
  progress text,
  result text,
  data text not null,
  payload text not null,
  primary key (namespace, id)
)
-- Leaves room on each page for the next version of its rows. Vacuumed early, because a claim scans past dead rows.
with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

create unique index item_open_key on holdfast.item (namespace, queue, key) where key is not null and phase <> 'closed';
create unique index item_open_dedupe on holdfast.item (namespace, queue, dedupe_key) where dedupe_key is not null and phase <> 'closed';
-- Finds the newest item of a key in one step, however often the key was reused.
create index item_key on holdfast.item (namespace, queue, key, added_at, id) where key is not null;
create index item_dedupe on holdfast.item (namespace, queue, dedupe_key, added_at, id) where dedupe_key is not null;
create index item_parent on holdfast.item (namespace, parent) where parent is not null;
-- An item is in exactly one of these five indexes, so a claim sees only what can be claimed now.
create index item_ready on holdfast.item (namespace, queue, priority, added_at, id, state) where phase = 'ready';
create index item_suspect on holdfast.item (namespace, queue, priority, added_at, id, state) where phase = 'suspect';
create index item_waiting on holdfast.item (namespace, queue, priority, added_at, id, state) where phase = 'waiting';
create index item_held on holdfast.item (namespace, coalesce(expires_at, 0), instance, queue, state) where phase = 'held';
create index item_held_suspect on holdfast.item (namespace, instance) where phase = 'held' and suspected_at is not null;
create index item_closed on holdfast.item (namespace, queue, closed_at, id, state) where phase = 'closed';
-- Few closed items have failed, and those are the ones people look for.
create index item_failed on holdfast.item (namespace, queue, state, closed_at, id) where outcome = 'failed';
create index item_offered on holdfast.item (namespace, queue, offered_to, priority, added_at, id) where offered_to is not null;
create index item_due on holdfast.item (namespace, run_at) where run_at is not null;
create index item_due_in_queue on holdfast.item (namespace, queue, run_at) where run_at is not null;
create index item_quarantined on holdfast.item (namespace, queue, quarantined_at) where quarantined_at is not null;

-- Which item waits for which: an index of `waiting_for`, maintained by the engine.
create table holdfast.blocker (
  namespace text collate "C" not null,
  blocker text collate "C" not null,
  item text collate "C" not null,
  primary key (namespace, blocker, item)
);
create index blocker_item on holdfast.blocker (namespace, item);

-- The labels, owner and host of ready tasks, in claim order: an index of `data`, maintained by the engine. Values are
-- JSON; null means none.
create table holdfast.ready_word (
  namespace text collate "C" not null,
  field text collate "C" not null check (field in ('label', 'owner', 'host')),
  value text collate "C" not null,
  priority bigint not null,
  added_at bigint not null,
  item text collate "C" not null,
  primary key (namespace, field, value, priority, added_at, item)
);

-- Items that succeeded or were removed while more items waited for them than one transaction frees.
create table holdfast.cascade (
  namespace text collate "C" not null,
  blocker text collate "C" not null,
  at bigint not null,
  primary key (namespace, blocker)
);

create table holdfast.lock (
  namespace text collate "C" not null,
  name text collate "C" not null,
  slot bigint not null,
  reason text,
  -- What was claimed with the lock, and under which token.
  item text collate "C",
  item_token bigint,
  acquired_at bigint not null,
  version bigint not null,
  agent text collate "C" not null,
  instance text collate "C",
  token bigint not null,
  granted_at bigint not null,
  renewed_at bigint not null,
  expires_at bigint not null,
  lease_ms bigint not null,
  -- The person or system on whose behalf the lock is held.
  "user" text,
  -- The run that the lock is held for.
  run text collate "C",
  -- How many may hold the lock at once; null for a processing lock, whose queue has the number.
  slots bigint check (slots > 0),
  -- How many times its holder has acquired it.
  depth bigint not null default 1 check (depth > 0),
  -- How long nobody gets the lock after its holder was lost.
  delay_ms bigint not null default 0 check (delay_ms >= 0),
  -- Not null: nobody holds it; the row keeps others out until `expires_at`.
  delayed_since bigint,
  -- A reservation: glob patterns as JSON, and whether others may share them.
  patterns text,
  mode text check (mode in ('shared', 'exclusive')),
  primary key (namespace, name, slot)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

create index lock_expiry on holdfast.lock (namespace, expires_at);
create index lock_reservation on holdfast.lock (namespace, name, slot) where patterns is not null;

-- A place in the line for a lock. It is a lease of its own, whose token gives the order.
create table holdfast.lock_waiter (
  namespace text collate "C" not null,
  id text collate "C" not null,
  name text collate "C" not null,
  joined_at bigint not null,
  version bigint not null,
  agent text collate "C" not null,
  instance text collate "C",
  token bigint not null,
  granted_at bigint not null,
  renewed_at bigint not null,
  expires_at bigint not null,
  lease_ms bigint not null,
  primary key (namespace, id)
) with (fillfactor = 70);

create unique index lock_waiter_line on holdfast.lock_waiter (namespace, name, token);
create index lock_waiter_expiry on holdfast.lock_waiter (namespace, expires_at);
create index lock_waiter_agent on holdfast.lock_waiter (namespace, agent);

create table holdfast.run (
  namespace text collate "C" not null,
  run text collate "C" not null,
  -- The lock under which it runs, and the grant that may write.
  lock text collate "C" not null,
  token bigint not null,
  status text collate "C" not null check (status in ('running', 'paused', 'completed', 'failed')),
  total bigint check (total >= 0),
  done bigint not null check (done >= 0),
  failed bigint not null check (failed >= 0),
  skipped bigint not null check (skipped >= 0),
  cursor text,
  completion text not null check (completion in ('processed', 'successful')),
  pause_reason text,
  started_at bigint not null,
  updated_at bigint not null,
  ended_at bigint,
  -- When the outcomes of its items were removed; the row is kept longer.
  outcomes_removed_at bigint,
  -- When it was last started, on the lease clock; null while it is not running.
  running_since bigint,
  -- How long it ran before that.
  active_ms bigint not null check (active_ms >= 0),
  version bigint not null,
  primary key (namespace, run),
  check ((status = 'running') = (running_since is not null)),
  check ((status = 'completed') = (ended_at is not null))
) with (fillfactor = 70);

create index run_running on holdfast.run (namespace, lock, token) where status = 'running';
create index run_ended on holdfast.run (namespace, ended_at) where ended_at is not null and outcomes_removed_at is null;
create index run_trimmed on holdfast.run (namespace, ended_at) where outcomes_removed_at is not null;

-- The outcome of each item of a run. A key counts once.
create table holdfast.outcome (
  namespace text collate "C" not null,
  -- run|key
  id text collate "C" not null,
  run text collate "C" not null,
  key text collate "C" not null,
  outcome text collate "C" not null check (outcome in ('done', 'failed', 'skipped')),
  error text,
  at bigint not null,
  version bigint not null,
  primary key (namespace, id)
);

create index outcome_of_run on holdfast.outcome (namespace, run, id);

create table holdfast.instance (
  namespace text collate "C" not null,
  id text collate "C" not null,
  agent text collate "C" not null,
  boot_id text not null,
  pid_namespace text not null,
  host_name text not null,
  pid bigint not null,
  start_time text,
  started_at bigint not null,
  beat_at bigint not null,
  -- The last heartbeat on the lease clock; null for a process that others registered, which sends none.
  seen_at bigint,
  swept_at bigint,
  ended_at bigint,
  end_reason text,
  -- Who registered this process for the agent; null if the process opened the store itself.
  registered_by text,
  -- When something it held was first found lost, on the lease clock, and what its process held then.
  lost_at bigint,
  lost_items bigint not null,
  lost_suspects bigint not null,
  version bigint not null,
  primary key (namespace, id)
) with (fillfactor = 70);

create index instance_running on holdfast.instance (namespace, started_at) where ended_at is null;
create index instance_process on holdfast.instance (namespace, pid);
-- The processes that a process can judge: those of its own machine, by start time.
create index instance_machine on holdfast.instance (namespace, boot_id, host_name, pid_namespace, started_at, id) where ended_at is null;
-- Processes that run recovery, in all namespaces: on each machine the oldest one also recovers for the others.
create index instance_healer on holdfast.instance (boot_id, host_name, pid_namespace, started_at, id) where ended_at is null and swept_at is not null;
create index instance_silent on holdfast.instance (namespace, seen_at) where ended_at is null and seen_at is not null;
create index instance_ended on holdfast.instance (namespace, ended_at) where ended_at is not null;
create index instance_registered on holdfast.instance (namespace, agent, started_at) where ended_at is null and registered_by is not null;
create index instance_agent on holdfast.instance (namespace, agent);

-- Answers to mutations that carried an idempotency key.
create table holdfast.answer (
  namespace text collate "C" not null,
  key text collate "C" not null,
  operation text not null,
  -- The only agent that may get it; null if any agent that repeats the request may.
  agent text collate "C",
  request_hash text not null,
  answer text not null,
  grants text not null,
  at bigint not null,
  primary key (namespace, key)
);

create index answer_at on holdfast.answer (namespace, at);

-- One row per queue that a recovery reclaimed something from; '' for named locks and messages, which have no queue.
create table holdfast.recovery_run (
  namespace text collate "C" not null,
  id text collate "C" not null,
  queue text collate "C" not null,
  at bigint not null,
  trigger text not null,
  by text not null,
  locks_cleaned bigint not null,
  entries_reclaimed bigint not null,
  quarantined bigint not null,
  messages_reclaimed bigint not null,
  primary key (namespace, id, queue)
);

create index recovery_run_at on holdfast.recovery_run (namespace, at, id);
create index recovery_run_queue on holdfast.recovery_run (namespace, queue, at, id);

-- Totals of the recoveries whose rows retention has removed: one row per queue.
create table holdfast.recovery_total (
  namespace text collate "C" not null,
  queue text collate "C" not null,
  locks_cleaned bigint not null,
  entries_reclaimed bigint not null,
  messages_reclaimed bigint not null,
  version bigint not null,
  primary key (namespace, queue)
);

-- Failed recoveries: how many, and the last error per trigger and queue.
create table holdfast.recovery_failure (
  namespace text collate "C" not null,
  queue text collate "C" not null,
  trigger text collate "C" not null,
  count bigint not null,
  at bigint not null,
  by text not null,
  error text not null,
  version bigint not null,
  primary key (namespace, queue, trigger)
);

create table holdfast.event (
  namespace text collate "C" not null,
  -- (id of the transaction + base) * 8192 + number within the transaction: events are ordered by
  -- transaction, and a reader can tell which are still to come. JavaScript has no larger whole numbers.
  seq bigint not null check (seq < 9007199254740992),
  at bigint not null,
  kind text collate "C" not null,
  subject text collate "C" not null,
  id text collate "C" not null,
  queue text collate "C",
  version bigint,
  agent text collate "C",
  token bigint,
  change text,
  detail text,
  primary key (namespace, seq)
);

create index event_subject on holdfast.event (namespace, subject, id, seq);
-- Losses are rare, so this index costs the other events nothing. Its kinds are `lossKinds` of the domain, in the same order:
-- the planner uses it only for a query with exactly this condition.
create index event_loss on holdfast.event (namespace, at, seq) where kind in ('item.reclaimed', 'item.quarantined', 'lock.expired', 'lock.stolen', 'lock.delayed', 'delivery.reclaimed');

-- Events are removed oldest first. What they said is folded into images, from which a replay starts.
create table holdfast.checkpoint (
  namespace text collate "C" not null,
  name text collate "C" not null,
  seq bigint not null,
  at bigint not null,
  digest text not null,
  version bigint not null,
  primary key (namespace, name)
);

-- The date that ages are counted back from: one row per wait. A recorded date is trusted once the lease clock has advanced
-- by that wait.
create table holdfast.horizon (
  namespace text collate "C" not null,
  wait_ms bigint not null,
  settled_at bigint,
  settled_lease_at bigint,
  noted_at bigint not null,
  noted_lease_at bigint not null,
  version bigint not null,
  primary key (namespace, wait_ms)
);

create table holdfast.image (
  namespace text collate "C" not null,
  subject text collate "C" not null,
  id text collate "C" not null,
  image text not null,
  primary key (namespace, subject, id)
);

-- Versioned documents: one JSON value under a key.
create table holdfast.state (
  namespace text collate "C" not null,
  key text collate "C" not null,
  version bigint not null check (version > 0),
  updated_at bigint not null,
  updated_by text not null,
  -- The update that goes first, and until when, on the lease clock.
  preferred text,
  preferred_until bigint,
  value text not null,
  primary key (namespace, key)
) with (fillfactor = 70);

-- The highest version that a deleted document has had, so that the versions of a key only grow.
create table holdfast.state_floor (
  namespace text collate "C" primary key,
  version bigint not null
);

-- Messages that must be acknowledged: one row per message, and one leased row per recipient.
-- next_due_at, gives_up_at, due_at, allowed_at and the times of allowances are on the lease clock, other times on the wall clock.
create table holdfast.recipient (
  namespace text collate "C" not null,
  name text collate "C" not null,
  adapter text collate "C" not null,
  address text,
  -- Per minute; 0 = no limit.
  sends_per_minute bigint not null check (sends_per_minute >= 0),
  acks_per_minute bigint not null check (acks_per_minute >= 0),
  deliveries_per_minute bigint not null check (deliveries_per_minute >= 0),
  registered_at bigint not null,
  version bigint not null,
  primary key (namespace, name)
);

-- Names that somebody has acted under without registering; messages can be sent to them.
create table holdfast.addressable (
  namespace text collate "C" not null,
  name text collate "C" not null,
  at bigint not null,
  primary key (namespace, name)
);

create index addressable_at on holdfast.addressable (namespace, at);

create table holdfast.message (
  namespace text collate "C" not null,
  id text collate "C" not null,
  sender text collate "C" not null,
  type text not null,
  content text not null,
  context text,
  parent text collate "C",
  priority bigint not null,
  state text collate "C" not null check (state in ('pending', 'acked', 'escalated', 'acked_late', 'dead', 'cancelled')),
  quorum bigint not null check (quorum > 0),
  level bigint not null check (level >= 0),
  policy text not null,
  -- When the next level of escalation is reached; null while recipients still have time to answer.
  due_at bigint,
  allowed_at bigint,
  escalation text,
  note text,
  created_at bigint not null,
  closed_at bigint,
  version bigint not null,
  primary key (namespace, id),
  check ((state in ('pending', 'escalated')) = (closed_at is null)),
  check (closed_at is null or due_at is null)
) with (fillfactor = 70);

create index message_open on holdfast.message (namespace, sender, id) where closed_at is null;
create index message_pending on holdfast.message (namespace, id) where closed_at is null;
create index message_due on holdfast.message (namespace, due_at) where due_at is not null;
create index message_dead on holdfast.message (namespace, id) where state = 'dead';
create index message_closed on holdfast.message (namespace, closed_at) where closed_at is not null;

create table holdfast.delivery (
  -- In the order of creation.
  row bigint generated always as identity,
  namespace text collate "C" not null,
  id text collate "C" not null,
  message text collate "C" not null,
  level bigint not null check (level >= 0),
  recipient text collate "C" not null,
  adapter text collate "C" not null,
  priority bigint not null,
  state text collate "C" not null check (state in ('queued', 'sent', 'failed', 'acked', 'refused', 'unanswered', 'cancelled')),
  attempts bigint not null,
  crashes bigint not null,
  next_due_at bigint,
  allowed_at bigint,
  gives_up_at bigint,
  sent_at bigint,
  read_at bigint,
  acked_at bigint,
  progress_at bigint,
  note text,
  last_error text,
  created_at bigint not null,
  closed_at bigint,
  version bigint not null,
  agent text collate "C",
  instance text collate "C",
  token bigint not null,
  granted_at bigint,
  renewed_at bigint,
  expires_at bigint,
  lease_ms bigint,
  primary key (namespace, id),
  check ((state in ('queued', 'sent', 'failed')) = (closed_at is null)),
  -- The sender holds a lease, so that nobody else finds it due meanwhile.
  check ((agent is null) = (expires_at is null)),
  check (agent is null or (closed_at is null and next_due_at is null)),
  check (closed_at is null or (next_due_at is null and gives_up_at is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

create index delivery_message on holdfast.delivery (namespace, message);
create index delivery_inbox on holdfast.delivery (namespace, recipient, priority, id) where closed_at is null;
-- Nobody waits for these any longer, but they can still be answered.
create index delivery_unanswered on holdfast.delivery (namespace, recipient, priority, id) where state = 'unanswered';
create index delivery_history on holdfast.delivery (namespace, recipient, id);
-- By adapter, so that what this process cannot send does not hide what it can.
create index delivery_due on holdfast.delivery (namespace, adapter, next_due_at, id) where next_due_at is not null;
create index delivery_expiry on holdfast.delivery (namespace, gives_up_at) where gives_up_at is not null and agent is null;
create index delivery_held on holdfast.delivery (namespace, expires_at, instance) where agent is not null;

-- What was allowed through a limit during the last minute.
create table holdfast.allowance (
  namespace text collate "C" not null,
  name text collate "C" not null,
  marks text not null,
  at bigint not null,
  version bigint not null,
  primary key (namespace, name)
) with (fillfactor = 70);

create index allowance_at on holdfast.allowance (namespace, at);

-- Names in a function keep the meaning they had when it was created, whatever the caller's search path. In SQL a standard
-- body ensures that; a `set` clause would too, but such a function is not inlined.

-- The lease clock, which every process takes from the server. A transaction may set its own time.
create function holdfast.now_ms() returns bigint language sql volatile
return coalesce(nullif(current_setting('holdfast.now_ms', true), '')::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);

create function holdfast.wall_ms() returns bigint language sql volatile
return coalesce(nullif(current_setting('holdfast.wall_ms', true), '')::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);

-- Added to transaction ids, which start over when a store is restored on another server, and are reused
-- on another branch of a server's history.
create function holdfast.event_base() returns bigint language sql stable
return coalesce((select value::bigint from holdfast.meta where key = 'event_base'), 0);

-- A text field of a JSON object; null if it is missing or anything else. Damaged JSON counts as missing, because it must
-- not stop a search.
create function holdfast.json_field(object text, field text) returns text language plpgsql immutable
set search_path = pg_catalog, pg_temp as
$$
declare
  value json;
begin
  -- PostgreSQL cannot read \u0000 or half of a surrogate pair, such as \ud83e, from JSON; whole pairs are never
  -- escaped.
  -- Replacing them is safe: no name that is searched for contains any of them.
  value := regexp_replace(object, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'g')::json -> field;
  return case when json_typeof(value) = 'string' then value #>> '{}' end;
exception when others then
  return null;
end
$$;

-- Whether a JSON object has all of these labels. Labels must be a list: the operators of text and objects have the same
-- names and would match as well.
create function holdfast.has_labels(object text, wanted text[]) returns boolean language plpgsql immutable
set search_path = pg_catalog, pg_temp as
$$
declare
  labels jsonb;
begin
  labels := regexp_replace(object, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'g')::jsonb -> 'labels';
  return case when jsonb_typeof(labels) = 'array' then labels ?& wanted else cardinality(wanted) = 0 end;
exception when others then
  return false;
end
$$;

-- A statement must affect the expected number of rows, or the whole batch is rolled back.
create function holdfast.expect(met bigint, expected bigint) returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
  if met <> expected then
    raise exception 'met % rows instead of %', met, expected using errcode = 'HF001';
  end if;
end $$;

-- Behind a pooler the server may have changed since the last query; then the batch belongs to the former branch.
create function holdfast.expect_branch(used text) returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (
    select 1
    from holdfast.timeline t
    where t.mark = used and t.timeline = ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int
  ) then
    raise exception 'the primary is another server now' using errcode = 'HF003';
  end if;
end $$;

-- Raised when the store has moved, with its new location.
create function holdfast.moved(mark text) returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
  raise exception '%', mark::json ->> 'to' using errcode = 'HF002';
end $$;

-- Called only for rows that are in the way: each call needs a block of its own to fail in.
create function holdfast.is_json(text) returns boolean language plpgsql immutable
set search_path = pg_catalog, pg_temp as $$
begin
  perform $1::json;
  return true;
exception when others then
  return false;
end $$;
