/** `hf.agents`: agents and their processes. */
import { shown } from '../domain/text.ts'
import type { Liveness } from '../environment.ts'
import { NotFoundError } from '../errors.ts'
import { agentProcessExists, getAgentId, getAgentIdSimple, parsePidFromAgentId } from '../host/agent-id.ts'
import { processExists } from '../host/process.ts'
import type { AgentView } from '../operations/agent/agent.ts'
import type { AskedOf } from '../operations/table.ts'
import { optionsOf } from '../runtime/session/input.ts'
import type { Session } from '../runtime/session/session.ts'
import type { AgentOptions } from './call-options.ts'

/** A running process of the fleet. `liveness` is what this machine can tell: `unknown` whenever there is any doubt. */
export interface Agent extends AgentView {
  /** Whether it runs, as far as this machine can tell. */
  readonly liveness: Liveness
  /** How this machine knows. */
  readonly evidence: string
}

/** Agents, and the processes behind them. */
export class Agents {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /**
   * Registers the process on this machine that is behind an agent; default is this process. Whatever the agent claims
   * from then on (items, tasks, locks), through any process, belongs to the registered process: it is freed at once
   * when that process is proven dead, and never because a helper process ended.
   */
  async register(
    options: AgentOptions & {
      /** The process; default this one. */
      pid?: number | undefined
    } = {},
  ): Promise<Agent> {
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

  /**
   * Records a sign of life. False when the agent has no running process, whether or not recovery has noticed that yet.
   */
  async beat(options: AgentOptions = {}): Promise<boolean> {
    return this.#session.ask('agents.beat', { dead: await this.#session.recovery.deadInstances() }, options)
  }

  /** Running processes, each with what this machine can tell about it. */
  async list(options: AskedOf<'agents.list'> = {}): Promise<Agent[]> {
    const agents = await this.#session.ask('agents.list', {}, options)
    return agents.map((agent) => this.#judged(agent))
  }

  #judged(agent: AgentView): Agent {
    return { ...agent, ...this.#session.environment.host.judge(agent, this.#session.storeIsLocal) }
  }

  /** `{type}-{host}-{pid}`, with the type from HOLDFAST_AGENT. */
  getAgentId(): string {
    return getAgentId()
  }

  /** `{type}-{host}`, which cannot be checked against a process. */
  getAgentIdSimple(): string {
    return getAgentIdSimple()
  }

  /** The pid in an agent's id, or null. */
  parsePidFromAgentId(agent: string): number | null {
    return parsePidFromAgentId(agent)
  }

  /**
   * Whether the process in an agent's id exists; null when this cannot be determined (no pid, or another host).
   * Information only.
   */
  agentProcessExists(agent: string): boolean | null {
    return agentProcessExists(agent)
  }

  /** Whether a process with this pid exists. Information only: pids are reused. */
  processExists(pid: number): boolean {
    return processExists(pid)
  }
}
