/** The default name of an agent, type-host-pid with the type from the environment, and what such a name tells. */
import { hostname } from 'node:os'
import { assertName } from '../domain/name.ts'
import { processExists } from './process.ts'

/**
 * The name of a program that gives none: HOLDFAST_AGENT as it is, so that everything an agent starts acts as that
 * agent; otherwise a name that only this process has.
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

/** The pid in `{type}-{host}-{pid}`; null if there is none, as in the simple form. */
export function parsePidFromAgentId(agent: string): number | null {
  if (typeof agent !== 'string') return null
  // A host name may itself end in a number (web-01), but we know our own.
  if (agent.endsWith(`-${hostname()}`)) return null
  const [, digits] = /^.+-.+-([1-9]\d{0,9})$/.exec(agent) ?? []
  return digits === undefined ? null : Number(digits)
}

/**
 * Whether the process named in an agent's id runs here; null if that cannot be determined (no pid, or another host).
 * Informational: the pid may belong to a newer process. Recovery asks for proof instead.
 */
export function agentProcessExists(agent: string): boolean | null {
  const pid = parsePidFromAgentId(agent)
  if (pid === null || !agent.endsWith(`-${hostname()}-${pid}`)) return null
  return processExists(pid)
}
