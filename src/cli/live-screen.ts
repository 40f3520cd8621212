/** A full-screen view that redraws itself like `top`, and restores the terminal when it closes. */
import { Drawing } from './drawing.ts'
import { type Size, sizeOf } from './io.ts'

const escapeKey = '\u001b'
const sequence = `${escapeKey}[`
/** Alternate screen, no cursor, and long lines are cut instead of wrapped. */
const enter = `${sequence}?1049h${sequence}?25l${sequence}?7l`
const interrupt = '\u0003'
const leave = `${sequence}?7h${sequence}?25h${sequence}?1049l`

/** Escape sequences of keys that are not characters: arrows, the keypad, and anything typed with Alt. */
const escapes = new RegExp(`${escapeKey}(?:\\[[0-?]*[ -/]*[@-~]|O.|.)`, 'gs')

/** Several keys may arrive at once. In raw mode, Ctrl-C is a key like any other. */
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

  /** Fires when the user quits. */
  get closed(): AbortSignal {
    return this.#closing.signal
  }

  /** Draws now, and again to fit whenever the size of the terminal changes. */
  draw(make: (size: Size) => Drawing): void {
    this.#make = make
    this.#redraw()
  }

  /** Overwrites line by line: clearing the whole screen first would flicker. */
  #redraw(): void {
    const { columns, rows } = sizeOf(process.stdout)
    // The last line stays empty: a line break there would scroll the first line away.
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
