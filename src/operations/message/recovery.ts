/** Recovery of messages: deliveries whose sender was lost become due again. */
import type { Delivery } from '../../domain/delivery.ts'
import { type Deaths, type Reclaimed, recoverDelivery } from '../../domain/recovery.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'

interface LostDeliveries {
  readonly lapsed: readonly Delivery[] | null
  readonly orphans: readonly Delivery[] | null
}

/** Each delivery once, at most `limit` of them. */
export function lostDeliveries({ lapsed, orphans }: LostDeliveries, limit: number): Delivery[] {
  const rows = [...(lapsed ?? []), ...(orphans ?? [])]
  return [...new Map(rows.map((delivery) => [delivery.id, delivery])).values()].slice(0, limit)
}

export function takeDeliveries(
  deliveries: readonly Delivery[],
  deaths: Deaths,
  now: number,
): Reclaimed<Delivery>[] {
  return deliveries.flatMap((delivery) => recoverDelivery(delivery, deaths, now) ?? [])
}

export function deliveryReclaim(
  { before, after, evidence, expiredForMs }: Reclaimed<Delivery>,
  context: Context,
  trigger: string,
): Change {
  const detail = { holder: before.agent, token: before.token, evidence, expiredForMs, trigger }
  const event = { kind: 'delivery.reclaimed', agent: context.agent, detail } as const
  return { table: 'delivery', before, after, event }
}
