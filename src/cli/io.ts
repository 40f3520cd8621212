/** What a command reads and writes: the process's own streams, or those of a test. */
import { closeSync, constants, openSync } from 'node:fs'
import { isatty } from 'node:tty'
import { decodeText } from '../domain/text.ts'
import { InvalidError, NotFoundError } from '../errors.ts'

export interface Io {
  /** Data. */
  out(text: string): void
  /** Talk: errors, hints, progress. */
  err(text: string): void
  readonly stdin: NodeJS.ReadableStream
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** Stdout is a terminal. */
  readonly isTerminal: boolean
  /** Stderr is a terminal. */
  readonly isTalkSeen: boolean
  /** This process has a controlling terminal, wherever its streams lead. Its children may ask for a password there. */
  hasTerminal(): boolean
  /** Someone is there to answer a question. */
  readonly canAsk: boolean
  /** Width of the terminal; null if lines may have any length. */
  readonly columns: number | null
  /** The same for talk. */
  readonly talkColumns: number | null
  /** Height of the terminal; null if there is no limit. */
  readonly rows: number | null
  readonly hasColors: boolean
  /** Separate, because stderr may be a terminal when stdout is not, and vice versa. */
  readonly hasTalkColors: boolean
}

export function processIo(): Io {
  const { stdin, stdout, stderr, env } = process
  return {
    out: (text) => void stdout.write(text),
    err: (text) => void stderr.write(text),
    stdin,
    env,
    get cwd() {
      return currentFolder()
    },
    isTerminal: stdout.isTTY === true,
    isTalkSeen: stderr.isTTY === true,
    hasTerminal: hasControllingTerminal,
    canAsk: isatty(0) && stderr.isTTY === true,
    columns: stdout.isTTY ? sizeOf(stdout).columns : null,
    talkColumns: stderr.isTTY ? sizeOf(stderr).columns : null,
    rows: stdout.isTTY ? sizeOf(stdout).rows : null,
    hasColors: hasColors(env, stdout.isTTY === true),
    hasTalkColors: hasColors(env, stderr.isTTY === true),
  }
}

/** Read only when needed: help works in any folder. */
function currentFolder(): string {
  try {
    return process.cwd()
  } catch (cause) {
    throw new NotFoundError({
      what: 'the current folder no longer exists',
      next: 'go to one that does, such as the main work tree of the repository',
      cause,
    })
  }
}

export interface Size {
  readonly columns: number
  readonly rows: number
}

/** Some terminals do not know their size and report 0. */
export function sizeOf({ columns, rows }: NodeJS.WriteStream): Size {
  return { columns: columns || 80, rows: rows || 24 }
}

function hasControllingTerminal(): boolean {
  if (process.platform === 'win32') return process.stdin.isTTY === true
  try {
    closeSync(openSync('/dev/tty', constants.O_RDWR | constants.O_NOCTTY))
    return true
  } catch {
    return false
  }
}

/** No colours off a terminal, unless `NO_COLOR` or `FORCE_COLOR` decides. */
function hasColors(env: Io['env'], isTerminal: boolean): boolean {
  if (env.NO_COLOR) return false
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== '0'
  return isTerminal && env.TERM !== 'dumb'
}

/** The most items that can be added at once, each with the largest payload. A limit, because a pipe may have no end. */
const maxInputBytes = 256 * 1024 * 1024

/** Reads stdin to its end. */
export function readStdin(io: Io): Promise<string> {
  return readText(io.stdin, 'stdin')
}

export async function readText(stream: NodeJS.ReadableStream, from: string): Promise<string> {
  const chunks: Buffer[] = []
  let bytesLeft = maxInputBytes
  for await (const chunk of stream) {
    const bytes = Buffer.from(chunk as Buffer | string)
    bytesLeft -= bytes.length
    if (bytesLeft < 0) {
      const what = `${from} is larger than ${maxInputBytes / 1024 / 1024} MiB`
      throw new InvalidError({ what, next: 'give less' })
    }
    chunks.push(bytes)
  }
  const text = decodeText(Buffer.concat(chunks))
  if (text !== null) return text
  throw new InvalidError({ what: `${from} is not UTF-8`, next: 'convert it, for instance with iconv' })
}
