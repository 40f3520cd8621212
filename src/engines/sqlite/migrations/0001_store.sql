-- The whole store, as of the first release. `namespace` comes first in every key and in every index except one of `instance`.
-- Every leased row has the same lease columns: agent, instance, token, granted_at, renewed_at, expires_at, lease_ms.
-- Lease times are on the lease clock, all others on the wall clock; both in milliseconds.

-- Facts about the store itself: its identity, whether it holds an unfinished copy of another store, where it has moved.
create table meta (
  key text primary key,
  value text not null
) strict, without rowid;

create table namespace (
  name text primary key,
  -- The highest token that a deleted row has had, so that the tokens of a name only grow.
  token_floor integer not null default 0
) strict, without rowid;

-- Per boot id: lease clock = awake time of the host + offset.
create table lease_clock (
  boot_id text primary key,
  offset_ms integer not null,
  created_at integer not null,
  -- When it was last seen in use: wall time, and awake time of the host.
  seen_at integer not null,
  awake_ms integer not null
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
  max_attempts integer not null check (max_attempts > 0),
  max_crashes integer not null check (max_crashes >= 0),
  -- Length of leases that a process renews, and of those that nobody renews; null: the default of the process or of Holdfast.
  lease_ms integer check (lease_ms >= 0),
  manual_lease_ms integer check (manual_lease_ms >= 0),
  -- How the waits between retries grow, as JSON; null: Holdfast's default.
  backoff text,
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
  phase text not null check (phase in ('ready', 'suspect', 'waiting', 'held', 'closed')),
  priority integer not null,
  key text,
  dedupe_key text,
  parent text,
  ancestors text not null,
  blockers text not null,
  waiting_for text not null,
  run_at integer,
  -- Who may claim it before `run_at`.
  offered_to text,
  attempts integer not null,
  failures integer not null,
  crashes integer not null,
  exposures integer not null,
  suspected_at integer,
  progress_at_loss text,
  crash_resets integer not null,
  max_attempts integer not null,
  quarantined_at integer,
  quarantine_reason text,
  cancel_requested_at integer,
  submitted_by text,
  added_at integer not null,
  started_at integer,
  state_changed_at integer not null,
  closed_at integer,
  outcome text check (outcome in ('succeeded', 'failed')),
  previous_state text,
  version integer not null,
  agent text,
  instance text,
  token integer not null,
  granted_at integer,
  renewed_at integer,
  expires_at integer,
  lease_ms integer,
  -- The machine that made a manual claim.
  holder_host text,
  error text,
  progress text,
  result text,
  data text not null,
  payload text not null,
  foreign key (namespace, queue) references queue (namespace, name),
  -- An item has a holder exactly while it is held, and a held item has a start time.
  check ((phase = 'held') = (agent is not null)),
  check ((phase = 'held') = (expires_at is not null)),
  check (phase = 'held' or holder_host is null),
  check (phase <> 'held' or started_at is not null),
  check (started_at is null or started_at <= state_changed_at),
  check ((phase = 'closed') = (outcome is not null)),
  check ((phase = 'closed') = (closed_at is not null)),
  check (phase = 'waiting' or run_at is null)
) strict;

create unique index item_id on item (namespace, id);
create unique index item_open_key on item (namespace, queue, key) where key is not null and phase <> 'closed';
create unique index item_open_dedupe on item (namespace, queue, dedupe_key) where dedupe_key is not null and phase <> 'closed';
-- Finds the newest item of a key in one step, however often the key was reused.
create index item_key on item (namespace, queue, key, added_at, id) where key is not null;
create index item_dedupe on item (namespace, queue, dedupe_key, added_at, id) where dedupe_key is not null;
create index item_parent on item (namespace, parent) where parent is not null;
-- An item is in exactly one of these five indexes, so a claim sees only what can be claimed now.
create index item_ready on item (namespace, queue, priority, added_at, id, state) where phase = 'ready';
create index item_suspect on item (namespace, queue, priority, added_at, id, state) where phase = 'suspect';
create index item_waiting on item (namespace, queue, priority, added_at, id, state) where phase = 'waiting';
create index item_held on item (namespace, coalesce(expires_at, 0), instance, queue, state) where phase = 'held';
create index item_held_suspect on item (namespace, instance) where phase = 'held' and suspected_at is not null;
create index item_closed on item (namespace, queue, closed_at, state) where phase = 'closed';
-- Few closed items have failed, and those are the ones people look for.
create index item_failed on item (namespace, queue, state, closed_at, id) where outcome = 'failed';
create index item_offered on item (namespace, queue, offered_to, priority, added_at, id) where offered_to is not null;
create index item_due on item (namespace, run_at) where run_at is not null;
create index item_due_in_queue on item (namespace, queue, run_at) where run_at is not null;
create index item_quarantined on item (namespace, queue, quarantined_at) where quarantined_at is not null;

-- Which item waits for which: an index of `waiting_for`, maintained by the engine.
create table blocker (
  namespace text not null,
  blocker text not null,
  item text not null,
  primary key (namespace, blocker, item)
) strict, without rowid;
create index blocker_item on blocker (namespace, item);

-- The labels, owner and host of ready tasks, in claim order: an index of `data`, maintained by the engine. Values are
-- JSON; null means none.
create table ready_word (
  namespace text not null,
  field text not null check (field in ('label', 'owner', 'host')),
  value text not null,
  priority integer not null,
  added_at integer not null,
  item text not null,
  primary key (namespace, field, value, priority, added_at, item)
) strict, without rowid;

-- Items that succeeded or were removed while more items waited for them than one transaction frees.
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
  -- What was claimed with the lock, and under which token.
  item text,
  item_token integer,
  acquired_at integer not null,
  version integer not null,
  agent text not null,
  instance text,
  token integer not null,
  granted_at integer not null,
  renewed_at integer not null,
  expires_at integer not null,
  lease_ms integer not null,
  -- The person or system on whose behalf the lock is held.
  user text,
  -- The run that the lock is held for.
  run text,
  -- How many may hold the lock at once; null for a processing lock, whose queue has the number.
  slots integer check (slots > 0),
  -- How many times its holder has acquired it.
  depth integer not null default 1 check (depth > 0),
  -- How long nobody gets the lock after its holder was lost.
  delay_ms integer not null default 0 check (delay_ms >= 0),
  -- Not null: nobody holds it; the row keeps others out until `expires_at`.
  delayed_since integer,
  -- A reservation: glob patterns as JSON, and whether others may share them.
  patterns text check (patterns is null or json_valid(patterns)),
  mode text check (mode in ('shared', 'exclusive')),
  primary key (namespace, name, slot)
) strict, without rowid;

create index lock_expiry on lock (namespace, expires_at);
create index lock_reservation on lock (namespace, name) where patterns is not null;

-- A place in the line for a lock. It is a lease of its own, whose token gives the order.
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
create index lock_waiter_agent on lock_waiter (namespace, agent);

create table run (
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
  -- When the outcomes of its items were removed; the row is kept longer.
  outcomes_removed_at integer,
  -- When it was last started, on the lease clock; null while it is not running.
  running_since integer,
  -- How long it ran before that.
  active_ms integer not null check (active_ms >= 0),
  version integer not null,
  primary key (namespace, run),
  check ((status = 'running') = (running_since is not null)),
  check ((status = 'completed') = (ended_at is not null))
) strict, without rowid;

create index run_running on run (namespace, lock, token) where status = 'running';
create index run_ended on run (namespace, ended_at) where ended_at is not null and outcomes_removed_at is null;
create index run_trimmed on run (namespace, ended_at) where outcomes_removed_at is not null;

-- The outcome of each item of a run. A key counts once.
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
  -- The last heartbeat on the lease clock; null for a process that others registered, which sends none.
  seen_at integer,
  swept_at integer,
  ended_at integer,
  end_reason text,
  -- Who registered this process for the agent; null if the process opened the store itself.
  registered_by text,
  -- When something it held was first found lost, on the lease clock, and what its process held then.
  lost_at integer,
  lost_items integer not null,
  lost_suspects integer not null,
  version integer not null,
  primary key (namespace, id)
) strict, without rowid;

create index instance_agent on instance (namespace, agent);
create index instance_registered on instance (namespace, agent, started_at) where ended_at is null and registered_by is not null;
create index instance_running on instance (namespace, started_at) where ended_at is null;
create index instance_process on instance (namespace, pid);
-- The processes that a process can judge: those of its own machine, by start time.
create index instance_machine on instance (namespace, boot_id, host_name, pid_namespace, started_at, id) where ended_at is null;
-- Processes that run recovery, in all namespaces: on each machine the oldest one also recovers for the others.
create index instance_healer on instance (boot_id, host_name, pid_namespace, started_at, id) where ended_at is null and swept_at is not null;
create index instance_silent on instance (namespace, seen_at) where ended_at is null and seen_at is not null;
create index instance_ended on instance (namespace, ended_at) where ended_at is not null;

-- Answers to mutations that carried an idempotency key.
create table answer (
  namespace text not null,
  key text not null,
  operation text not null,
  -- The only agent that may get it; null if any agent that repeats the request may.
  agent text,
  request_hash text not null,
  answer text not null,
  grants text not null,
  at integer not null,
  primary key (namespace, key)
) strict, without rowid;

create index answer_at on answer (namespace, at);

-- One row per queue that a recovery reclaimed something from; '' for named locks and messages, which have no queue.
create table recovery_run (
  namespace text not null,
  id text not null,
  queue text not null,
  at integer not null,
  trigger text not null,
  by text not null,
  locks_cleaned integer not null,
  entries_reclaimed integer not null,
  quarantined integer not null,
  messages_reclaimed integer not null,
  primary key (namespace, id, queue)
) strict, without rowid;

create index recovery_run_at on recovery_run (namespace, at, id);
create index recovery_run_queue on recovery_run (namespace, queue, at, id);

-- Totals of the recoveries whose rows retention has removed: one row per queue.
create table recovery_total (
  namespace text not null,
  queue text not null,
  locks_cleaned integer not null,
  entries_reclaimed integer not null,
  messages_reclaimed integer not null,
  version integer not null,
  primary key (namespace, queue)
) strict, without rowid;

-- Failed recoveries: how many, and the last error per trigger and queue.
create table recovery_failure (
  namespace text not null,
  queue text not null,
  trigger text not null,
  count integer not null,
  at integer not null,
  by text not null,
  error text not null,
  version integer not null,
  primary key (namespace, queue, trigger)
) strict, without rowid;

create table event (
  -- Has no gaps as long as the newest event is never removed, so retention keeps it.
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
-- Its last column is the row number, which is `seq`, so it lists the events of a namespace in order. Without it every read of
-- the feed would sort all events.
create index event_namespace on event (namespace);
-- Losses are rare, so this index costs the other events nothing. Its kinds are `lossKinds` of the domain, in the same order:
-- the planner uses it only for a query with exactly this condition.
create index event_loss on event (namespace, at, seq) where kind in ('item.reclaimed', 'item.quarantined', 'lock.expired', 'lock.stolen', 'lock.delayed', 'delivery.reclaimed');

-- Events are removed oldest first. What they said is folded into images, from which a replay starts.
create table checkpoint (
  namespace text not null,
  name text not null,
  seq integer not null,
  at integer not null,
  digest text not null,
  version integer not null,
  primary key (namespace, name)
) strict, without rowid;

-- The date that ages are counted back from: one row per wait. A recorded date is trusted once the lease clock has advanced
-- by that wait.
create table horizon (
  namespace text not null,
  wait_ms integer not null,
  settled_at integer,
  settled_lease_at integer,
  noted_at integer not null,
  noted_lease_at integer not null,
  version integer not null,
  primary key (namespace, wait_ms)
) strict, without rowid;

create table image (
  namespace text not null,
  subject text not null,
  id text not null,
  image text not null,
  primary key (namespace, subject, id)
) strict, without rowid;

-- Versioned documents: one JSON value under a key.

create table state (
  namespace text not null,
  key text not null,
  version integer not null check (version > 0),
  updated_at integer not null,
  updated_by text not null,
  -- The update that goes first, and until when, on the lease clock.
  preferred text,
  preferred_until integer,
  value text not null,
  primary key (namespace, key)
) strict;

-- The highest version that a deleted document has had, so that the versions of a key only grow.
create table state_floor (
  namespace text primary key,
  version integer not null
) strict, without rowid;

-- Messages that must be acknowledged: one row per message, and one leased row per recipient.
-- next_due_at, gives_up_at, due_at, allowed_at and the times of allowances are on the lease clock, other times on the wall clock.

create table recipient (
  namespace text not null,
  name text not null,
  adapter text not null,
  address text,
  -- Per minute; 0 = no limit.
  sends_per_minute integer not null check (sends_per_minute >= 0),
  acks_per_minute integer not null check (acks_per_minute >= 0),
  deliveries_per_minute integer not null check (deliveries_per_minute >= 0),
  registered_at integer not null,
  version integer not null,
  primary key (namespace, name)
) strict, without rowid;

-- Names that somebody has acted under without registering; messages can be sent to them.
create table addressable (
  namespace text not null,
  name text not null,
  at integer not null,
  primary key (namespace, name)
) strict, without rowid;

create index addressable_at on addressable (namespace, at);

create table message (
  row integer primary key,
  namespace text not null,
  id text not null,
  sender text not null,
  type text not null,
  content text not null,
  context text,
  parent text,
  priority integer not null,
  state text not null check (state in ('pending', 'acked', 'escalated', 'acked_late', 'dead', 'cancelled')),
  quorum integer not null check (quorum > 0),
  level integer not null check (level >= 0),
  policy text not null,
  -- When the next level of escalation is reached; null while recipients still have time to answer.
  due_at integer,
  allowed_at integer,
  escalation text,
  note text,
  created_at integer not null,
  closed_at integer,
  version integer not null,
  check ((state in ('pending', 'escalated')) = (closed_at is null)),
  check (closed_at is null or due_at is null)
) strict;

create unique index message_id on message (namespace, id);
create index message_open on message (namespace, sender, id) where closed_at is null;
create index message_pending on message (namespace, id) where closed_at is null;
create index message_due on message (namespace, due_at) where due_at is not null;
create index message_dead on message (namespace, id) where state = 'dead';
create index message_closed on message (namespace, closed_at) where closed_at is not null;

create table delivery (
  row integer primary key,
  namespace text not null,
  id text not null,
  message text not null,
  level integer not null check (level >= 0),
  recipient text not null,
  adapter text not null,
  priority integer not null,
  state text not null check (state in ('queued', 'sent', 'failed', 'acked', 'refused', 'unanswered', 'cancelled')),
  attempts integer not null,
  crashes integer not null,
  next_due_at integer,
  allowed_at integer,
  gives_up_at integer,
  sent_at integer,
  read_at integer,
  acked_at integer,
  progress_at integer,
  note text,
  last_error text,
  created_at integer not null,
  closed_at integer,
  version integer not null,
  agent text,
  instance text,
  token integer not null,
  granted_at integer,
  renewed_at integer,
  expires_at integer,
  lease_ms integer,
  check ((state in ('queued', 'sent', 'failed')) = (closed_at is null)),
  -- The sender holds a lease, so that nobody else finds it due meanwhile.
  check ((agent is null) = (expires_at is null)),
  check (agent is null or (closed_at is null and next_due_at is null)),
  check (closed_at is null or (next_due_at is null and gives_up_at is null))
) strict;

create unique index delivery_id on delivery (namespace, id);
create index delivery_message on delivery (namespace, message);
create index delivery_inbox on delivery (namespace, recipient, priority, id) where closed_at is null;
-- Nobody waits for these any longer, but they can still be answered.
create index delivery_unanswered on delivery (namespace, recipient, priority, id) where state = 'unanswered';
create index delivery_history on delivery (namespace, recipient, id);
-- By adapter, so that what this process cannot send does not hide what it can.
create index delivery_due on delivery (namespace, adapter, next_due_at) where next_due_at is not null;
create index delivery_expiry on delivery (namespace, gives_up_at) where gives_up_at is not null and agent is null;
create index delivery_held on delivery (namespace, expires_at, instance) where agent is not null;

-- What was allowed through a limit during the last minute.
create table allowance (
  namespace text not null,
  name text not null,
  marks text not null,
  at integer not null,
  version integer not null,
  primary key (namespace, name)
) strict, without rowid;

create index allowance_at on allowance (namespace, at);
