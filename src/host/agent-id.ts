/** The default name of an agent: type-host-pid, the type from the environment; and what such a name tells. */
import { hostname } from 'node:os'
import { assertName } from '../domain/name.ts'
import { processExists } from './process.ts'

/**
 * The name a program acts under that gives none: HOLDFAST_AGENT as it stands, so that whatever an agent starts acts as
 * that agent; else a name of this process alone.
 */
export function defaultAgent(): string {
  const named = process.env.HOLDFAST_AGENT
  if (!named) return getAgentId()
  assertName('HOLDFAST_AGENT', named)
  return named
}

/** `{type}-{host}-{pid}`, with the type from HOLDFAST_AGENT or "general". */
export function getAgentId(): string {
  return `${getAgentIdSimple()}-${process.pid}`
}

/** Without the pid: cannot be checked against a process. */
export function getAgentIdSimple(): string {
  const type = (process.env.HOLDFAST_AGENT ?? '').replace(/[^\p{L}\p{N}_.-]/gu, '_')
  return `${type || 'general'}-${hostname()}`
}

/** The pid in `{type}-{host}-{pid}`; null where there is none, as in the simple form. */
export function parsePidFromAgentId(agent: string): number | null {
  if (typeof agent !== 'string') return null
  // A host may end in a number of its own (web-01); our own host we know.
  if (agent.endsWith(`-${hostname()}`)) return null
  const [, digits] = /^.+-.+-([1-9]\d{0,9})$/.exec(agent) ?? []
  return digits === undefined ? null : Number(digits)
}

/**
 * Whether the process named in an agent's id runs here; null when it cannot be told: no pid in it, or another host.
 * Informs only: the pid may be a newer process's. Recovery asks for proof instead.
 */
export function agentProcessExists(agent: string): boolean | null {
  const pid = parsePidFromAgentId(agent)
  if (pid === null || !agent.endsWith(`-${hostname()}-${pid}`)) return null
  return processExists(pid)
}
