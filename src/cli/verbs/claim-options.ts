/** Options shared by verbs that claim. */
import type { OwnOption } from '../verb.ts'

export const forPid: OwnOption = {
  flags: '--for-pid <pid>',
  description:
    'pid of the running process that owns the lease, which ends at once when that process is proven dead',
}
