/** `hf.agents`: agents and their processes. */
import { shown } from '../domain/text.ts'
import type { Liveness } from '../environment.ts'
import { NotFoundError } from '../errors.ts'
import { agentProcessExists, getAgentId, getAgentIdSimple, parsePidFromAgentId } from '../host/agent-id.ts'
import { processExists } from '../host/process.ts'
import type { AgentView } from '../operations/agent/agent.ts'
import type { InputOf } from '../operations/table.ts'
import { optionsOf } from '../runtime/session/input.ts'
import type { Session } from '../runtime/session/session.ts'

/** A running process of the fleet. The verdict is this machine's: unknown whenever there is doubt. */
export interface Agent extends AgentView {
  readonly liveness: Liveness
  readonly evidence: string
}

export class Agents {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /**
   * Says which process of this machine stands behind an agent; default this one. Items, tasks and locks the agent
   * claims from then on, through whatever process, belong to it: freed at once when it is proven dead, never because a
   * helper ended.
   */
  async register(options: { agent?: string; pid?: number } = {}): Promise<Agent> {
    const { environment } = this.#session
    const { pid = environment.host.identity.pid, ...rest } = optionsOf('agents.register', options)
    const identity = environment.host.identify(pid)
    if (identity === null) {
      throw new NotFoundError({
        what: `there is no process ${shown(pid)} on this machine`,
        next: 'register the pid of a running process, here',
        facts: typeof pid === 'number' ? { pid } : {},
      })
    }
    if (!this.#session.storeIsLocal) environment.host.leaveMark(identity)
    const instance = await this.#session.ask('agents.register', identity, rest)
    return this.#judged({ ...instance, crashes: 0, suspect: false })
  }

  /** Shows that an agent lives. False when it has no running process, whether healing has noticed that or not. */
  async beat(options: { agent?: string } = {}): Promise<boolean> {
    return this.#session.ask('agents.beat', { dead: await this.#session.deadInstances() }, options)
  }

  /** Running processes, each with what this machine can say of it. */
  async list(options: InputOf<'agents.list'> = {}): Promise<Agent[]> {
    const agents = await this.#session.ask('agents.list', {}, options)
    return agents.map((agent) => this.#judged(agent))
  }

  #judged(agent: AgentView): Agent {
    return { ...agent, ...this.#session.environment.host.judge(agent, this.#session.storeIsLocal) }
  }

  /** `{type}-{host}-{pid}`, the type from HOLDFAST_AGENT. */
  getAgentId(): string {
    return getAgentId()
  }

  /** `{type}-{host}`: cannot be checked against a process. */
  getAgentIdSimple(): string {
    return getAgentIdSimple()
  }

  /** The pid in an agent's id, or null. */
  parsePidFromAgentId(agent: string): number | null {
    return parsePidFromAgentId(agent)
  }

  /** Informs only; null when it cannot be told (no pid, another host). */
  agentProcessExists(agent: string): boolean | null {
    return agentProcessExists(agent)
  }

  /** Informs only: a pid may be used again. */
  processExists(pid: number): boolean {
    return processExists(pid)
  }
}
