/** Agents that read their inbox here are made known, so that others can write to them. */
import { isHoldfastError } from '../../errors.ts'

/** Beyond it, agents are introduced again. */
const maxIntroduced = 10_000

export class Introductions {
  readonly #introduced = new Set<string>()
  readonly #send: (agent: string) => Promise<unknown>

  constructor(send: (agent: string) => Promise<unknown>) {
    this.#send = send
  }

  /**
   * Reading writes nothing, so this is a separate call, once per agent. Reading must work where nothing can be written;
   * a failed introduction is retried with the next read.
   */
  async introduce(agent: string): Promise<void> {
    if (this.#introduced.has(agent)) return
    try {
      await this.#send(agent)
      if (this.#introduced.size >= maxIntroduced) this.#introduced.clear()
      this.#introduced.add(agent)
    } catch (error) {
      if (!isHoldfastError(error) || error.code === 'INVALID') throw error
    }
  }
}
