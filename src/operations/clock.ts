/** What the store's two clocks show: the one leases are judged by, and that of the wall. */
import * as z from 'zod'
import { operation } from './operation.ts'

export const read = operation({
  name: 'clock.read',
  summary: 'The lease clock of this store, by which `expiresAt` is counted, and wall time beside it.',
  effect: 'read',
  class: 'client',
  input: () => z.strictObject({}),
  output: () => z.object({ now: z.number(), wall: z.number() }),
  needs: () => ({}),
  decide: (_rows, _input, { now, wall }) => ({ changes: [], result: { now, wall } }),
})
