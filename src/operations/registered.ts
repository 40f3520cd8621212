/** The process behind a claim: the caller's own, or the one registered for its agent. */
import type { Instance } from '../domain/instance.ts'
import type { Holder } from '../domain/lease.ts'
import type { Caller } from '../engines/engine.ts'

/** Looked for only where the caller has no process of its own. */
export const registered = ({ agent, instance }: Caller) =>
  instance === null ? ({ select: 'registeredInstance', agent } as const) : null

export function holderWith({ agent, instance }: Caller, process: Instance | null): Holder {
  return { agent, instance: instance ?? process?.id ?? null }
}
