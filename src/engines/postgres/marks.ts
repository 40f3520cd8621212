/** Facts about the store itself. */
import { assertUsable } from '../marks.ts'
import type { MarkName } from '../transfer.ts'
import type { Run } from './migrate.ts'

export async function readMark(run: Run, name: MarkName): Promise<string | null> {
  const [row] = await run('select value from holdfast.meta where key = $1', [name])
  return (row?.[0] ?? null) as string | null
}

export async function writeMark(run: Run, name: MarkName, value: string): Promise<void> {
  await run(
    'insert into holdfast.meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value',
    [name, value],
  )
}

export async function assertUsableStore(run: Run, location: string): Promise<void> {
  const [copy, moved] = await Promise.all([readMark(run, 'copy'), readMark(run, 'moved')])
  assertUsable(location, { copy, moved })
}

/** How long leases that nobody renews are spared after they end, ms. If a value is given, the store keeps it. */
export async function settleManualGrace(run: Run, graceMs: number | undefined): Promise<number> {
  const known = Number((await readMark(run, 'manual_grace_ms')) ?? 0)
  if (graceMs === undefined || graceMs === known) return known
  await writeMark(run, 'manual_grace_ms', String(graceMs))
  return graceMs
}
