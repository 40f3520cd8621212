-- Messages that must be acknowledged: one row a message, one leased row a recipient.
-- next_due_at, gives_up_at, due_at and place_at are on the lease clock, as are the marks of allowances; other times on the wall clock.

create table recipient (
  namespace text not null,
  name text not null,
  adapter text not null,
  address text,
  -- A minute; 0 = no limit.
  sends_per_minute integer not null check (sends_per_minute >= 0),
  acks_per_minute integer not null check (acks_per_minute >= 0),
  deliveries_per_minute integer not null check (deliveries_per_minute >= 0),
  registered_at integer not null,
  version integer not null,
  primary key (namespace, name)
) strict, without rowid;

create index instance_agent on instance (namespace, agent);

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
  place_at integer,
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
  place_at integer,
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
  -- Whoever sends it holds a lease; nobody else may find it due meanwhile.
  check ((agent is null) = (expires_at is null)),
  check (agent is null or (closed_at is null and next_due_at is null)),
  check (closed_at is null or (next_due_at is null and gives_up_at is null))
) strict;

create unique index delivery_id on delivery (namespace, id);
create index delivery_message on delivery (namespace, message);
create index delivery_inbox on delivery (namespace, recipient, priority, id) where closed_at is null;
create index delivery_history on delivery (namespace, recipient, id);
-- By adapter: what nobody here can send must not stand in front of what we can.
create index delivery_due on delivery (namespace, adapter, next_due_at) where next_due_at is not null;
create index delivery_expiry on delivery (namespace, gives_up_at) where gives_up_at is not null and agent is null;
create index delivery_held on delivery (namespace, expires_at, instance) where agent is not null;

-- What was let through under a limit during the last minute.
create table allowance (
  namespace text not null,
  name text not null,
  marks text not null,
  at integer not null,
  version integer not null,
  primary key (namespace, name)
) strict, without rowid;

create index allowance_at on allowance (namespace, at);

alter table recovery_run add column messages_reclaimed integer not null default 0;
