-- Versioned documents: one JSON value under a key.

create table state (
  namespace text not null,
  key text not null,
  version integer not null check (version > 0),
  updated_at integer not null,
  updated_by text not null,
  value text not null,
  primary key (namespace, key)
) strict;

-- Highest version a deleted document has had, so that versions of a key only grow.
create table state_floor (
  namespace text primary key,
  version integer not null
) strict, without rowid;
