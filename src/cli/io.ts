/** What a command line reads and writes: the process's own streams, or those of a test. */
import { closeSync, constants, openSync } from 'node:fs'
import { isatty } from 'node:tty'
import { decodeText } from '../domain/text.ts'
import { InvalidError } from '../errors.ts'

export interface Io {
  /** Data. */
  out(text: string): void
  /** Talk: errors, hints, progress. */
  err(text: string): void
  readonly stdin: NodeJS.ReadableStream
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** Somebody looks at stdout. */
  readonly isTerminal: boolean
  /** Somebody looks at stderr. */
  readonly isTalkSeen: boolean
  /** A terminal stands behind this process, wherever its streams lead: its children may ask there for a password. */
  hasTerminal(): boolean
  /** Somebody can answer a question. */
  readonly canAsk: boolean
  /** Width of the terminal; null where lines may be as long as they like. */
  readonly columns: number | null
  /** The same for talk. */
  readonly talkColumns: number | null
  /** Height of the terminal; null where as much as there is may be shown. */
  readonly rows: number | null
  readonly hasColors: boolean
  /** Talk may be seen where the data is not, and the other way round. */
  readonly hasTalkColors: boolean
}

export function processIo(): Io {
  const { stdin, stdout, stderr, env } = process
  return {
    out: (text) => void stdout.write(text),
    err: (text) => void stderr.write(text),
    stdin,
    env,
    cwd: process.cwd(),
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

export interface Size {
  readonly columns: number
  readonly rows: number
}

/** Some terminals do not know how large they are and say 0. */
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

/** Off the terminal none; `NO_COLOR` and `FORCE_COLOR` decide where they are set. */
function hasColors(env: Io['env'], isTerminal: boolean): boolean {
  if (env.NO_COLOR) return false
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== '0'
  return isTerminal && env.TERM !== 'dumb'
}

/** Everything there is on stdin. */
export async function readStdin(io: Io): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of io.stdin) chunks.push(Buffer.from(chunk as Buffer | string))
  return readText(Buffer.concat(chunks), 'stdin')
}

export function readText(bytes: Uint8Array, from: string): string {
  const text = decodeText(bytes)
  if (text !== null) return text
  throw new InvalidError({ what: `${from} is not UTF-8`, next: 'convert it, for instance with iconv' })
}
