/** Recovery before claims, for an engine that found that a lease has lapsed or a delay has ended. */
import type { Environment } from '../environment.ts'
import { maxReclaimed } from '../operations/recovery/report.ts'
import { entropyFor } from '../operations/table.ts'
import type { Command } from '../port/command.ts'
import type { Claims } from '../port/healing.ts'

/** `reclaims`: false if healing before claims is turned off; delays still end on time. */
export function recoveryBefore(claims: Claims, reclaims: boolean, environment: Environment): Command {
  const { namespace, caller, queues } = claims
  const only = reclaims ? undefined : 'due'
  const input = { trigger: 'claim', only, first: queues.slice(0, maxReclaimed) }
  const entropy = entropyFor('recovery.run', input, environment)
  return { operation: 'recovery.run', input, namespace, caller, entropy }
}
