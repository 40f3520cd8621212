/** The store's two clocks: the lease clock, by which leases are judged, and the wall clock. */
import * as z from 'zod'
import { operation, reply } from '../operation.ts'

export const read = operation({
  name: 'clock.read',
  summary: "Get the store's lease clock, which `expiresAt` uses, and its wall time.",
  effect: 'read',
  class: 'client',
  input: () => ({}),
  output: () => z.object({ now: z.number(), wall: z.number() }),
  needs: () => ({}),
  decide: (_rows, _input, { now, wall }) => reply({ now, wall }),
})
