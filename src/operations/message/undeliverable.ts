/** Deliveries that can never be made: stopped in the store, and reported. */
import * as z from 'zod'
import { type Delivery, stopDelivery, strandDelivery, strandedBecause } from '../../domain/delivery.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import { change, type OutputOf, view } from '../operation.ts'

export const undeliverable = view(() => ({ delivery: z.string(), recipient: z.string(), error: z.string() }))
/** Which delivery, and why. */
export type Undeliverable = OutputOf<typeof undeliverable>

interface Stopped {
  readonly change: Change
  readonly undeliverable: Undeliverable
}

/** Stops a delivery whose message cannot be read. Settling ends the message itself. */
export function stopDamaged(before: Delivery, error: string, context: Context): Stopped {
  const after = stopDelivery(before, error, context.now)
  const stopped = change('delivery', before, after, 'delivery.failed', context, { error })
  return { change: stopped, undeliverable: tell(before, error) }
}

/** Stops a delivery whose message is gone. */
export function stopStranded(before: Delivery, context: Context): Stopped {
  const after = strandDelivery(before, context.wall)
  const detail = { reason: strandedBecause }
  const stopped = change('delivery', before, after, 'delivery.cancelled', context, detail)
  return { change: stopped, undeliverable: tell(before, strandedBecause) }
}

function tell({ id, recipient }: Delivery, error: string): Undeliverable {
  return { delivery: id, recipient, error }
}
