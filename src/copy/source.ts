/** The store being copied: its identity, whether it may be copied, and its state when the copy begins. */
import { assertUsable, type MovedMark, parseMoved } from '../engines/marks.ts'
import { type Transfer, transferTables } from '../engines/transfer.ts'
import type { Environment } from '../environment.ts'
import { open } from '../handle/open.ts'
import type { SourceState } from './beginning.ts'
import type { CopiedTable } from './report.ts'
import { assertNobodyRuns, findProcesses } from './running.ts'

/**
 * Gives the source an identity, by which an unfinished copy recognises it, and reclaims what its dead processes held:
 * their deaths can be proven here, and perhaps not where the store goes.
 */
export async function prepareSource(
  source: Transfer,
  { url, environment }: { url: string; environment: Environment },
): Promise<void> {
  await source.hold()
  const moved = await readMoved(source)
  if ((await source.readMark('store_id')) === null) await source.writeMark('store_id', environment.id())
  const { running, bereaved } = await findProcesses(source, environment)
  await source.commit()
  if (moved !== null) return
  assertNobodyRuns(source.location, running)
  for (const namespace of bereaved) {
    const hf = await open(url, { namespace, environment, background: false, logger: false })
    await hf.close()
  }
}

/**
 * Holds the source until the copy is over, and returns where it has moved, if it has. That and the running processes
 * are checked under this hold: before it, another copy may have shut the source, and processes may have joined.
 */
export async function holdSource(source: Transfer, environment: Environment): Promise<MovedMark | null> {
  await source.hold()
  const moved = await readMoved(source)
  if (moved !== null) return moved
  const { running } = await findProcesses(source, environment)
  assertNobodyRuns(source.location, running)
  return null
}

/** Null if the store has not moved; throws if it holds half a copy itself. */
export async function readMoved(source: Transfer): Promise<MovedMark | null> {
  const moved = await source.readMark('moved')
  if (moved !== null) return parseMoved(source.location, moved)
  assertUsable(source.location, { copy: await source.readMark('copy'), moved })
  return null
}

export async function readState(
  source: Transfer,
  target: Transfer,
  moved: MovedMark | null,
): Promise<SourceState> {
  return {
    shutBy: moved?.copy ?? null,
    id: await source.readMark('store_id'),
    newestEvent: await source.newestEvent(),
    shiftMs: await measureShift(source, target),
  }
}

/** Reads the target's clock between two readings of the source's clock. */
async function measureShift(source: Transfer, target: Transfer): Promise<number> {
  const before = await source.leaseNow()
  const there = await target.leaseNow()
  const after = await source.leaseNow()
  return Math.round(there - (before + after) / 2)
}

export async function countRows(store: Transfer): Promise<CopiedTable[]> {
  const counted: CopiedTable[] = []
  for (const table of transferTables)
    counted.push({ table: table.name, rows: await store.countRows(table), digest: null })
  return counted
}
