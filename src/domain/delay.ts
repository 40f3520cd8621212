/** When a new item may be claimed: at a time, or after a delay. */
import { InvalidError } from '../errors.ts'

interface Due {
  readonly runAt?: number | null | undefined
  readonly delayMs?: number | undefined
}

/** The requested time; undefined if none was given. */
export function dueAt({ runAt, delayMs }: Due, wall: number): number | null | undefined {
  if (delayMs === undefined) return runAt
  if (runAt === undefined) return wall + delayMs
  throw new InvalidError({
    what: '`runAt` and `delayMs` cannot both be given',
    next: 'give one of them',
  })
}
