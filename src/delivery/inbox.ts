/** The inbox in the store: recording the attempt makes a message appear there, so there is nothing to send. */
import type { Adapter } from './adapter.ts'

export const inbox: Adapter = {
  send: async () => ({ outcome: 'delivered' }),
}
