/** The default name of an agent: type-host-pid, the type from the environment. */
import { hostname } from 'node:os'

/** `{type}-{host}-{pid}`, with the type from HOLDFAST_AGENT or "general". */
export function getAgentId(): string {
  return `${getAgentIdSimple()}-${process.pid}`
}

/** Without the pid: cannot be checked against a process. */
function getAgentIdSimple(): string {
  const type = (process.env.HOLDFAST_AGENT ?? '').replace(/[^\p{L}\p{N}_.-]/gu, '_')
  return `${type || 'general'}-${hostname()}`
}
