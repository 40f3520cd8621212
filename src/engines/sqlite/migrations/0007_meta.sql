-- Facts about the store itself: who it is, whether it holds an unfinished copy of another one, where it has moved.
create table meta (
  key text primary key,
  value text not null
) strict, without rowid;
