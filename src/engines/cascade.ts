/**
 * Frees the items that a completion left waiting. One transaction frees 100 items; the process that completed their
 * blocker frees the rest right away, 100 at a time, whatever its recovery options. If it dies in between, the cascade
 * row remains, and recovery or the next claim continues.
 */
import type { Environment } from '../environment.ts'
import { entropyFor } from '../operations/table.ts'
import type { Command } from '../port/command.ts'
import type { Decision } from '../port/decision.ts'

/** Who completed the blocker, and where. */
type Completion = Pick<Command, 'namespace' | 'caller'>

export interface CascadeOptions {
  readonly environment: Environment
  execute(command: Command): Promise<unknown>
  onFailed(error: unknown): void
}

/** Backoff while others hold the rows: 10 ms, 20 ms, … for half a second in all. After that, recovery takes over. */
const stepMs = 10
const maxAttempts = 10

/** Whether more items wait for what was completed here than the transaction itself freed. */
export function leavesWaiting({ changes }: Decision): boolean {
  return changes.some(({ table, after }) => table === 'cascade' && after !== null)
}

export class Cascades {
  readonly #options: CascadeOptions
  /** By namespace; `isAskedAgain` says whether another completion arrived in the meantime. */
  readonly #underWay = new Map<string, { isAskedAgain: boolean; readonly ended: Promise<void> }>()
  #isOver = false

  constructor(options: CascadeOptions) {
    this.#options = options
  }

  /** Called after the commit of a completion that left some items waiting. */
  begin(completion: Completion): void {
    const known = this.#underWay.get(completion.namespace)
    if (known) known.isAskedAgain = true
    else this.#underWay.set(completion.namespace, { isAskedAgain: false, ended: this.#run(completion) })
  }

  /** Null when no cascade is running. */
  get ended(): Promise<unknown> | null {
    const all = [...this.#underWay.values()].map(({ ended }) => ended)
    return all.length === 0 ? null : Promise.all(all)
  }

  /** Stops, and leaves the rest to others. */
  giveUp(): void {
    this.#isOver = true
  }

  async #run({ namespace, caller }: Completion): Promise<void> {
    // Never inside the transaction that is being answered.
    await null
    try {
      for (let idle = 0; idle <= maxAttempts && !this.#isOver; ) {
        const { freed, more } = await this.#free({ namespace, caller })
        const known = this.#underWay.get(namespace)
        if (!more && !known?.isAskedAgain) return
        if (known) known.isAskedAgain = false
        idle = freed > 0 || !more ? 0 : idle + 1
        if (idle > 0) await this.#pause(idle * stepMs)
      }
    } catch (error) {
      this.#options.onFailed(error)
    } finally {
      this.#underWay.delete(namespace)
    }
  }

  #free(completion: Completion): Promise<{ freed: number; more: boolean }> {
    const { environment, execute } = this.#options
    const entropy = entropyFor('queue.freeDependents', {}, environment)
    const command = { ...completion, operation: 'queue.freeDependents', input: {}, entropy }
    return execute(command) as Promise<{ freed: number; more: boolean }>
  }

  #pause(ms: number): Promise<void> {
    return new Promise((done) => this.#options.environment.timer(ms, done))
  }
}
