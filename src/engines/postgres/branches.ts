/**
 * The branch this process uses, and which servers it may go on with. A refused server is followed after all when no
 * other has answered for a minute: it may be the only one there will ever be.
 */
import { type Admission, admit, type BranchFacts } from '../../domain/branch.ts'
import type { Environment } from '../../environment.ts'
import type { EngineOptions } from '../../port/engine.ts'
import type { MarkedBranch } from './timeline.ts'

export class Branches {
  readonly #environment: Environment
  readonly #log: EngineOptions['log']
  #used: MarkedBranch
  /** Since when servers have been refused while no other answered, monotonic ms. */
  #refusedSince: number | null = null
  /** What was logged since the branch last changed: a search may go on for long. */
  readonly #reported = new Set<string>()

  constructor(used: MarkedBranch, { environment, log }: Pick<EngineOptions, 'environment' | 'log'>) {
    this.#used = used
    this.#environment = environment
    this.#log = log
  }

  get used(): MarkedBranch {
    return this.#used
  }

  judge(met: BranchFacts): Admission {
    const refusedForMs = this.#refusedSince === null ? 0 : this.#environment.monotonic() - this.#refusedSince
    return admit(this.#used, met, refusedForMs)
  }

  /** The same, for a server that answers a search for the primary. */
  meet(met: BranchFacts): Admission {
    const admission = this.judge(met)
    if (admission === 'refused') this.#refuse(met)
    else if (admission !== 'adopted') this.answered()
    return admission
  }

  #refuse({ timeline, server }: BranchFacts): void {
    this.#refusedSince ??= this.#environment.monotonic()
    this.#tell('warn', server, { timeline, known: this.#used.timeline })
  }

  /** Two servers are on our timeline, and nothing says which of them to use. */
  refuseBoth(): void {
    const { timeline } = this.#used
    this.#tell('error', 'both', { timeline, known: timeline })
  }

  #tell(level: 'warn' | 'error', which: string, facts: { timeline: number; known: number }): void {
    if (this.#reported.has(which)) return
    this.#reported.add(which)
    this.#log(level, 'store.branch_refused', facts)
  }

  /** A server that we may use has answered. */
  answered(): void {
    this.#refusedSince = null
  }

  /** Uses the branch from now on. Returns false if it is the one used before. */
  use(branch: MarkedBranch): boolean {
    const { timeline: known, mark } = this.#used
    if (this.judge(branch) === 'adopted')
      this.#log('error', 'store.branch_adopted', { timeline: branch.timeline, known })
    this.#used = branch
    this.answered()
    if (branch.mark === mark) return false
    this.#reported.clear()
    return true
  }
}
