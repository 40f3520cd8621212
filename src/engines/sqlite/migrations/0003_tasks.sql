-- Tasks need no table of their own: they are items. This adds what agents and their crashes are asked by.

-- Who said that this process stands behind the agent; null where the process itself opened the store.
alter table instance add column registered_by text;

create index instance_registered on instance (namespace, agent, started_at) where ended_at is null and registered_by is not null;

-- Losses are rare, so this index costs the other events nothing.
create index event_loss on event (namespace, at, seq) where kind in ('item.reclaimed', 'item.quarantined', 'lock.expired');
