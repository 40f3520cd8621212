/** What the store's two clocks show: the one leases are judged by, and that of the wall. */
import * as z from 'zod'
import { operation } from '../operation.ts'

export const read = operation({
  name: 'clock.read',
  summary: "Get the store's lease clock, which `expiresAt` uses, and its wall time.",
  effect: 'read',
  class: 'client',
  input: () => z.strictObject({}),
  output: () => z.object({ now: z.number(), wall: z.number() }),
  needs: () => ({}),
  decide: (_rows, _input, { now, wall }) => ({ changes: [], result: { now, wall } }),
})
