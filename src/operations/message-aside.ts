/** Deliveries that can never be made: set aside in the store, and told of. */
import * as z from 'zod'
import { type Delivery, setDeliveryAside, strandDelivery, strandedBecause } from '../domain/delivery.ts'
import type { Change, Context } from '../engines/engine.ts'
import { lazily } from '../lazily.ts'
import type { OutputOf } from './operation.ts'

export const setAside = lazily(() =>
  z.object({ delivery: z.string(), recipient: z.string(), error: z.string() }),
)
/** Which one, and why. */
export type SetAside = OutputOf<typeof setAside>

interface Aside {
  readonly change: Change
  readonly setAside: SetAside
}

/** Of a message that cannot be read; settling ends that. */
export function asideDamaged(before: Delivery, error: string, { agent, now }: Context): Aside {
  const after = setDeliveryAside(before, error, now)
  const event = { kind: 'delivery.failed', agent, detail: { error } } as const
  return { change: { table: 'delivery', before, after, event }, setAside: tell(before, error) }
}

/** Of a message that is gone. */
export function asideStranded(before: Delivery, { agent, wall }: Context): Aside {
  const after = strandDelivery(before, wall)
  const event = { kind: 'delivery.cancelled', agent, detail: { reason: strandedBecause } } as const
  return { change: { table: 'delivery', before, after, event }, setAside: tell(before, strandedBecause) }
}

function tell({ id, recipient }: Delivery, error: string): SetAside {
  return { delivery: id, recipient, error }
}
