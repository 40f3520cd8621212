/**
 * Frees what a completion left waiting. One transaction frees 100 items; the process that completed their blocker frees
 * the rest at once, 100 at a time, whatever its recovery options. If it dies meanwhile, the cascade row is still there,
 * and recovery or the next claim goes on.
 */
import type { Environment } from '../environment.ts'
import { entropyFor } from '../operations/table.ts'
import type { Command, Decision } from './engine.ts'

/** Who completed the blocker, and where. */
type Completion = Pick<Command, 'namespace' | 'caller'>

export interface CascadeOptions {
  readonly environment: Environment
  execute(command: Command): Promise<unknown>
  onFailed(error: unknown): void
}

/** While others hold the rows: 10 ms, 20 ms, … for half a second in all. Then it is left to recovery. */
const stepMs = 10
const maxAttempts = 10

/** Whether more items wait for what was completed here than its own transaction freed. */
export function leavesWaiting({ changes }: Decision): boolean {
  return changes.some(({ table, after }) => table === 'cascade' && after !== null)
}

export class Cascades {
  readonly #options: CascadeOptions
  /** By namespace; the value is whether another completion came meanwhile. */
  readonly #underWay = new Map<string, { isAskedAgain: boolean; readonly ended: Promise<void> }>()
  #isOver = false

  constructor(options: CascadeOptions) {
    this.#options = options
  }

  /** After the commit of a completion that left some waiting. */
  begin(completion: Completion): void {
    const known = this.#underWay.get(completion.namespace)
    if (known) known.isAskedAgain = true
    else this.#underWay.set(completion.namespace, { isAskedAgain: false, ended: this.#run(completion) })
  }

  /** Null when nothing is left to free. */
  get ended(): Promise<unknown> | null {
    const all = [...this.#underWay.values()].map(({ ended }) => ended)
    return all.length === 0 ? null : Promise.all(all)
  }

  /** Leaves the rest to others. */
  giveUp(): void {
    this.#isOver = true
  }

  async #run({ namespace, caller }: Completion): Promise<void> {
    // Never in the transaction that is being answered.
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
    const [operation, input] = ['queue.freeDependents', {}]
    const entropy = entropyFor(operation, input, environment)
    return execute({ ...completion, operation, input, entropy }) as Promise<{ freed: number; more: boolean }>
  }

  #pause(ms: number): Promise<void> {
    return new Promise((done) => this.#options.environment.timer(ms, done))
  }
}
