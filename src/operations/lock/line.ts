/** The line for a named lock: checking whose turn it is, staying in line, leaving it. */
import * as z from 'zod'
import { lookAtLine, maxAhead, renewWaiters, type Waiter } from '../../domain/lock-line.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { lockNameOf, maxRenewals } from '../lease/lease.ts'
import { change, type OutputOf, operation, reply } from '../operation.ts'
import { newName, slotCount } from './name.ts'

export const look = operation({
  name: 'locks.lookAtLine',
  summary: 'Say which waiters should ask for a lock now. Changes nothing.',
  effect: 'read',
  class: 'client',
  input: () => ({
    name: newName(),
    slots: slotCount().optional(),
    waiter: fields.text(100).describe("The first of the caller's waiters in this line."),
  }),
  output: () =>
    z.object({
      called: z.array(z.string()),
      asking: z.enum(['none', 'first', 'all']),
      ahead: z.number(),
      holders: z.array(z.object({ agent: z.string().nullable(), token: z.number() })),
    }),
  needs: ({ name, slots = 1, waiter }) => ({
    head: { select: 'lockHead', name, waiter, limit: slots, maxAhead },
  }),
  decide({ head }, { slots = 1 }, context) {
    const { called, asking, ahead, holders } = lookAtLine(slots, head, context)
    return reply({ called: [...called], asking, ahead, holders: [...holders] })
  },
})

const waiterTicket = lazily(() => z.strictObject({ id: fields.text(300), token: z.int().nonnegative() }))
/** A waiter in line: the lock's name and the waiter's id as one string, and its ticket. */
export type WaiterTicket = OutputOf<typeof waiterTicket>

export function waiterRef(name: string, waiter: string): string {
  return `${name}#${waiter}`
}

/** Ids contain no "#", so the last one is the separator. */
function waiterOf(ref: string): string {
  return ref.slice(ref.lastIndexOf('#') + 1)
}

export const renew = operation({
  name: 'locks.renewWaiters',
  summary: 'Keep waiters in line. A waiter whose turn has come is not renewed.',
  effect: 'write',
  class: 'client',
  isUrgent: true,
  input: () => ({ waiting: z.array(waiterTicket()).max(maxRenewals) }),
  output: () => z.number(),
  needs: ({ waiting }) => ({
    waiters: { select: 'waitersById', ids: waiting.map(({ id }) => waiterOf(id)) },
    heads: {
      select: 'lockHeads',
      names: [...new Set(waiting.map(({ id }) => lockNameOf(id)))],
    },
  }),
  decide({ waiters, heads }, { waiting }, context) {
    const tickets = new Set(waiting.map(({ id, token }) => `${id} ${token}`))
    const own = waiters.filter(({ name, id, token }) => tickets.has(`${waiterRef(name, id)} ${token}`))
    const renewed = renewWaiters(own, heads, context)
    return {
      changes: renewed.map((change): Change => ({ table: 'waiter', ...change })),
      result: renewed.length,
    }
  },
})

export const leave = operation({
  name: 'locks.leaveLine',
  summary: 'Leave the line for a lock.',
  effect: 'write',
  class: 'client',
  input: () => ({ name: newName(), waiter: fields.text(100), reason: fields.reason }),
  output: () => z.boolean(),
  needs: ({ waiter }) => ({ waiters: { select: 'waitersById', ids: [waiter], waits: true } }),
  decide({ waiters }, { name, reason }, context) {
    const own = waiters.find((waiter) => waiter.name === name) ?? null
    // It may now be the next waiter's turn.
    const isLeft = own !== null
    return { changes: leaving(own, reason ?? 'it gave up', context), result: isLeft }
  },
})

export function leaving(own: Waiter | null, because: string, context: Context): Change[] {
  if (own === null) return []
  return [change('waiter', own, null, 'waiter.left', context, { because })]
}
