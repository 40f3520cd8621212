/** A screen that is drawn anew, as `top` does; left as it was found. */

const sequence = '\u001b['
const enter = `${sequence}?1049h${sequence}?25l`
const interrupt = '\u0003'
const leave = `${sequence}?25h${sequence}?1049l`

export class LiveScreen {
  readonly #closing = new AbortController()
  readonly #onKey = (keys: Buffer) => {
    // In raw mode Ctrl-C is a key like any other.
    if (['q', 'Q', interrupt].includes(keys.toString())) this.#closing.abort()
  }
  readonly #onResize = () => this.#redraw()
  #text = ''

  constructor() {
    process.stdout.write(enter)
    process.stdout.on('resize', this.#onResize)
    if (!process.stdin.isTTY) return
    process.stdin.setRawMode(true)
    process.stdin.on('data', this.#onKey)
  }

  /** Fires when somebody has seen enough. */
  get closed(): AbortSignal {
    return this.#closing.signal
  }

  get columns(): number {
    return process.stdout.columns
  }

  draw(text: string): void {
    this.#text = text
    this.#redraw()
  }

  /** Line by line over what was there: clearing everything first would flicker. */
  #redraw(): void {
    const lines = this.#text.split('\n').slice(0, process.stdout.rows - 1)
    const drawn = lines.map((line) => `${line}${sequence}K`).join('\r\n')
    process.stdout.write(`${sequence}H${drawn}\r\n${sequence}J`)
  }

  close(): void {
    process.stdout.off('resize', this.#onResize)
    process.stdout.write(leave)
    if (!process.stdin.isTTY) return
    process.stdin.off('data', this.#onKey)
    process.stdin.setRawMode(false)
    process.stdin.pause()
  }
}
