/**
 * Delivers messages through a command of this process. Its words come from the program, never from the store, and no
 * shell reads them. The command gets the message on standard input, as one line of JSON.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import type { Envelope } from '../domain/envelope.ts'
import { jsonLine } from '../domain/text.ts'
import type { Adapter, AdapterOptions, Delivered } from './adapter.ts'

/** Which command delivers a message. */
export interface CommandOptions extends AdapterOptions {
  /** The program and its arguments, or a function that picks them for each message. */
  readonly argv: readonly string[] | ((envelope: Envelope) => readonly string[])
}

const maxErrorLength = 500

/**
 * Exit code 0 means delivered, whatever the command leaves running. When its time is up, the command and everything it
 * started is killed.
 */
export function command({ argv, ...times }: CommandOptions): Adapter {
  return {
    ...times,
    send: (envelope, signal) =>
      run(typeof argv === 'function' ? argv(envelope) : argv, `${jsonLine(envelope)}\n`, signal),
  }
}

type Child = ChildProcessByStdio<Writable, null, Readable>

/** Windows has no process groups. */
const hasGroups = process.platform !== 'win32'

function run([program, ...args]: readonly string[], input: string, signal: AbortSignal): Promise<Delivered> {
  if (program === undefined) {
    return Promise.resolve({ outcome: 'failed', error: 'no command was given', transient: false })
  }
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    // In its own process group, so that everything it starts can be killed with it.
    const child = spawn(program, args, {
      shell: false,
      stdio: ['pipe', 'ignore', 'pipe'],
      detached: hasGroups,
    })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(0, maxErrorLength)
    })
    // A command may end without having read its input.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    const stop = () => {
      kill(child)
      letGo(child)
      reject(signal.reason)
    }
    signal.addEventListener('abort', stop, { once: true })
    child.once('error', (error) => {
      signal.removeEventListener('abort', stop)
      reject(error)
    })
    // On exit, not when its stderr closes: a process it left running may keep stderr open for ever.
    child.once('exit', async (code, killedBy) => {
      signal.removeEventListener('abort', stop)
      if (code === 0) {
        letGo(child)
        resolve({ outcome: 'delivered' })
        return
      }
      await untilSilent(() => said)
      letGo(child)
      const how = killedBy === null ? `exited with code ${code}` : `was killed by ${killedBy}`
      const error = `${program} ${how}${said === '' ? '' : `: ${said.trim()}`}`
      resolve({ outcome: 'failed', error, transient: false })
    })
  })
}

function kill(child: Child): void {
  if (child.pid === undefined) return
  try {
    process.kill(hasGroups ? -child.pid : child.pid, 'SIGKILL')
  } catch {
    // It has ended meanwhile.
  }
}

/** The child and its pipes no longer keep the program from ending. */
function letGo(child: Child): void {
  child.unref()
  child.stdin.destroy()
  const stderr = child.stderr as Socket
  stderr.unref()
}

/** What it wrote before it ended may not have been read yet: waits a few turns of the loop until no more comes. */
async function untilSilent(said: () => string): Promise<void> {
  for (let before = '', quiet = 0; quiet < 3; ) {
    await new Promise((turn) => setImmediate(turn))
    quiet = said() === before ? quiet + 1 : 0
    before = said()
  }
}
