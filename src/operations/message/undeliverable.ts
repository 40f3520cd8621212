/** Deliveries that can never be made: stopped in the store, and reported. */
import * as z from 'zod'
import { type Delivery, stopDelivery, strandDelivery, strandedBecause } from '../../domain/delivery.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import { type OutputOf, view } from '../operation.ts'

export const undeliverable = view(() => ({ delivery: z.string(), recipient: z.string(), error: z.string() }))
/** Which delivery, and why. */
export type Undeliverable = OutputOf<typeof undeliverable>

interface Stopped {
  readonly change: Change
  readonly undeliverable: Undeliverable
}

/** Stops a delivery whose message cannot be read. Settling ends the message itself. */
export function stopDamaged(before: Delivery, error: string, { agent, now }: Context): Stopped {
  const after = stopDelivery(before, error, now)
  const event = { kind: 'delivery.failed', agent, detail: { error } } as const
  return { change: { table: 'delivery', before, after, event }, undeliverable: tell(before, error) }
}

/** Stops a delivery whose message is gone. */
export function stopStranded(before: Delivery, { agent, wall }: Context): Stopped {
  const after = strandDelivery(before, wall)
  const event = { kind: 'delivery.cancelled', agent, detail: { reason: strandedBecause } } as const
  return { change: { table: 'delivery', before, after, event }, undeliverable: tell(before, strandedBecause) }
}

function tell({ id, recipient }: Delivery, error: string): Undeliverable {
  return { delivery: id, recipient, error }
}
