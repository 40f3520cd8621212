/** Options shared by verbs that claim. */
import type { OwnOption } from '../verb.ts'

export const forPid: OwnOption = {
  flags: '--for-pid <pid>',
  description: 'the lease belongs to this running process, and ends at once when it is proven dead',
}
