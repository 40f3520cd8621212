/** A screen that is drawn anew, as `top` does; left as it was found. */
import { Drawing } from './drawing.ts'
import { type Size, sizeOf } from './io.ts'

const escapeKey = '\u001b'
const sequence = `${escapeKey}[`
/** Another screen, no cursor, and lines that are too long are cut instead of going on below. */
const enter = `${sequence}?1049h${sequence}?25l${sequence}?7l`
const interrupt = '\u0003'
const leave = `${sequence}?7h${sequence}?25h${sequence}?1049l`

/** What keys send that stand for no character: arrows, the keypad, and whatever is typed with Alt. */
const escapes = new RegExp(`${escapeKey}(?:\\[[0-?]*[ -/]*[@-~]|O.|.)`, 'gs')

/** Several keys may come at once. In raw mode Ctrl-C is a key like any other. */
function isEnough(keys: string): boolean {
  return keys.includes(interrupt) || /q/i.test(keys.replace(escapes, ''))
}

export class LiveScreen {
  readonly #closing = new AbortController()
  readonly #onKey = (keys: Buffer) => {
    if (isEnough(keys.toString())) this.#closing.abort()
  }
  readonly #onResize = () => this.#redraw()
  #make: (size: Size) => Drawing = () => new Drawing('')

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

  /** Drawn anew, and made to fit, when the size of the terminal changes. */
  draw(make: (size: Size) => Drawing): void {
    this.#make = make
    this.#redraw()
  }

  /** Line by line over what was there: clearing everything first would flicker. */
  #redraw(): void {
    const { columns, rows } = sizeOf(process.stdout)
    // The last line stays empty: a line break there would push the first one out.
    const lines = this.#make({ columns, rows: rows - 1 })
      .text.split('\n')
      .slice(0, rows - 1)
    const drawn = lines.map((line) => `${sequence}K${line}`).join('\r\n')
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
