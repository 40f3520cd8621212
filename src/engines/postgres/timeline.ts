/** Which primaries there were: each promotion begins a timeline, and the store notes when it was first seen. */
import type { Connection } from './connection.ts'

export async function noteTimeline(timeline: number, by: string, connection: Connection): Promise<void> {
  await connection.send({
    text: 'insert into holdfast.timeline (timeline, seen_at, by) values ($1, (select holdfast.wall_ms()), $2) on conflict (timeline) do nothing',
    values: [timeline, by],
  })
}

/** Whether a failover to it was first noted no longer ago than this. */
export async function isRecentTimeline(
  timeline: number,
  withinMs: number,
  connection: Connection,
): Promise<boolean> {
  const [row] = await connection.send({
    text: `select exists (
  select 1
  from holdfast.timeline t
  where t.timeline = $1 and t.seen_at > (select holdfast.wall_ms()) - $2
  and exists (select 1 from holdfast.timeline before where before.timeline < t.timeline)
)`,
    values: [timeline, withinMs],
  })
  return row?.[0] === true
}
