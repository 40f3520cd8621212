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

export const keys = { enter: '\r', left: '\u001b[D', interrupt: '\u0003', quit: '\u001c', end: '\u0004' }

interface TerminalOptions {
  readonly columns?: number
  readonly env?: Record<string, string>
}

export function inTerminal(folder: string, args: readonly string[], options: TerminalOptions = {}): Terminal {
  return openTerminal(folder, [process.execPath, program, ...args], options)
}

/** The same for a line that a shell reads. */
export function shellInTerminal(folder: string, line: string, options: TerminalOptions = {}): Terminal {
  return openTerminal(folder, ['/bin/sh', '-c', line], options)
}

/** The same for any other program. */
export function programInTerminal(
  folder: string,
  words: readonly string[],
  options: TerminalOptions = {},
): Terminal {
  return openTerminal(folder, words, options)
}

function openTerminal(
  folder: string,
  [file = '', ...args]: readonly string[],
  { columns = 80, env = {} }: TerminalOptions,
): Terminal {
  const { NO_COLOR: _, ...rest } = cleanEnvironment()
  const child: IPty = spawn(file, args, {
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
