-- What the recoveries did whose rows retention has removed: one row a namespace.
create table recovery_total (
  namespace text primary key,
  locks_cleaned integer not null,
  entries_reclaimed integer not null,
  messages_reclaimed integer not null,
  version integer not null
) strict, without rowid;
