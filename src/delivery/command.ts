/**
 * Messages by a command of this process: its words are given here, in the program, and never come from the store. No
 * shell reads them. The message is on its standard input as JSON.
 */
import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import type { Envelope } from '../domain/envelope.ts'
import type { Adapter, Delivered } from './adapter.ts'

export interface CommandOptions {
  /** The program and its arguments; a function may choose them by the message. */
  readonly argv: readonly string[] | ((envelope: Envelope) => readonly string[])
  /** ms; default 10 s, of a broadcast 5 s. The command is then killed. */
  readonly timeoutMs?: number
  /** Of a broadcast, where that is another time. */
  readonly broadcastTimeoutMs?: number
}

const errorLengthMax = 500

/** Delivered is exit code 0. */
export function command({ argv, ...times }: CommandOptions): Adapter {
  return {
    ...times,
    send: (envelope, signal) =>
      run(typeof argv === 'function' ? argv(envelope) : argv, JSON.stringify(envelope), signal),
  }
}

function run([program, ...args]: readonly string[], input: string, signal: AbortSignal): Promise<Delivered> {
  if (program === undefined) {
    return Promise.resolve({ outcome: 'failed', error: 'there is no command', transient: false })
  }
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      shell: false,
      stdio: ['pipe', 'ignore', 'pipe'],
      signal,
      killSignal: 'SIGKILL',
    })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(0, errorLengthMax)
    })
    // A command may end without having read its input.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    child.once('error', reject)
    const stderr = child.stderr as Socket
    // What a command leaves running may keep that open for ever; it keeps neither the message nor us waiting.
    child.once('exit', (code) => {
      if (code !== 0) return
      stderr.unref()
      resolve({ outcome: 'delivered' })
    })
    child.once('close', (code, killedBy) => {
      const how = killedBy === null ? `ended with ${code}` : `was ended by ${killedBy}`
      resolve({
        outcome: 'failed',
        error: `${program} ${how}${said === '' ? '' : `: ${said.trim()}`}`,
        transient: false,
      })
    })
  })
}
