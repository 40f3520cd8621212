/** A command in a real pseudo-terminal: what is on the screen, and what is typed. */
import { type IPty, spawn } from '@lydell/node-pty'
import { onTestFinished } from 'vitest'
import { cleanEnvironment, program } from './cli.ts'

export interface Terminal {
  /** Everything that was printed so far, escape sequences included. */
  readonly screen: string
  readonly pid: number
  type(keys: string): void
  /** Waits until the screen shows it. */
  shows(text: string | RegExp): Promise<void>
  /** How the command ended. */
  readonly ended: Promise<number>
}

export const keys = { enter: '\r', left: '\u001b[D', interrupt: '\u0003', end: '\u0004' }

export function inTerminal(
  folder: string,
  args: readonly string[],
  { columns = 80, env = {} }: { columns?: number; env?: Record<string, string> } = {},
): Terminal {
  const { NO_COLOR: _, ...rest } = cleanEnvironment()
  const child: IPty = spawn(process.execPath, [program, ...args], {
    name: 'xterm-256color',
    cols: columns,
    rows: 30,
    cwd: folder,
    env: { ...rest, ...env },
  })
  onTestFinished(() => child.kill('SIGKILL'))
  let screen = ''
  const watchers = new Set<() => void>()
  child.onData((data) => {
    screen += data
    for (const watcher of watchers) watcher()
  })
  const ended = new Promise<number>((resolve) => child.onExit(({ exitCode }) => resolve(exitCode)))
  return {
    get screen() {
      return screen
    },
    pid: child.pid,
    type: (text) => child.write(text),
    shows: (text) =>
      new Promise((resolve) => {
        const look = () => {
          const isThere = typeof text === 'string' ? screen.includes(text) : text.test(screen)
          if (!isThere) return
          watchers.delete(look)
          resolve()
        }
        watchers.add(look)
        look()
      }),
    ended,
  }
}
