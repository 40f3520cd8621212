/** Shows the progress of long work on one line that is redrawn in place. Only when stderr is a terminal. */
import { systemEnvironment } from '../host/system.ts'
import { drawn } from './drawing.ts'
import type { Call } from './verb.ts'
import { drawBar } from './verbs/progress-text.ts'

const width = 30
const showEveryMs = 100
const eraseLine = '\r\u001b[2K'

export class ProgressLine {
  readonly #call: Pick<Call, 'io' | 'isJson'>
  #shownAt = Number.NEGATIVE_INFINITY
  #isShown = false

  constructor(call: Pick<Call, 'io' | 'isJson'>) {
    this.#call = call
  }

  /** `what`: the current activity. */
  show({ done, total, what }: { done: number; total: number; what: string }): void {
    if (!this.#call.io.isTalkSeen || this.#call.isJson) return
    const now = systemEnvironment.monotonic()
    if (now - this.#shownAt < showEveryMs && done < total) return
    this.#shownAt = now
    const share = total === 0 ? 1 : Math.min(1, done / total)
    this.#write(
      `${drawBar(share, width)} ${String(Math.floor(share * 100)).padStart(3)} %  ${what}  ${done}/${total}`,
    )
    this.#isShown = true
  }

  /** Call before anything else is written. */
  clear(): void {
    if (this.#isShown) this.#write('')
    this.#isShown = false
  }

  #write(text: string): void {
    const { io } = this.#call
    io.err(`${eraseLine}${drawn(text).slice(0, (io.talkColumns ?? 80) - 1)}`)
  }
}
