/**
 * Distinguishes signals typed at the terminal, which reach the whole foreground group, from those sent to `run` alone:
 * a small shell in the same process group receives only the former. Node does not expose the sender of a signal, so
 * there is no other way.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { systemEnvironment } from '../host/system.ts'

type Typed = 'SIGINT' | 'SIGQUIT'

/** Exits when `run` closes its pipe. `cat` runs in the background, where it receives neither signal. */
const script = `exec 3<&0
trap 'echo SIGINT' INT
trap 'echo SIGQUIT' QUIT
cat <&3 >/dev/null &
while wait "$!"; [ "$?" -gt 128 ] && kill -s 0 "$!" 2>/dev/null; do :; done`

/** How long a shell may take on a busy machine. Only signals sent to `run` alone are delayed by this. */
const patienceMs = 1_000

interface Question {
  readonly signal: Typed
  readonly answer: (isTyped: boolean) => void
}

export class Witness {
  readonly #shell: ChildProcess
  readonly #questions = new Set<Question>()
  /** Reports that arrived before `run` itself received the signal. */
  readonly #reports: Typed[] = []

  constructor() {
    this.#shell = spawn('/bin/sh', ['-c', script], { stdio: ['pipe', 'pipe', 'ignore'] })
    // Without the shell, every signal is passed on.
    this.#shell.on('error', () => {})
    this.#shell.stdin?.on('error', () => {})
    // The signal came before the shell had set its traps, and killed it.
    this.#shell.on('exit', (_, signal) => this.#report(signal))
    if (this.#shell.stdout) createInterface(this.#shell.stdout).on('line', (line) => this.#report(line))
    this.#shell.unref()
  }

  /** Whether a signal that `run` has just received was typed at the terminal. */
  heard(signal: Typed): Promise<boolean> {
    if (this.#forget(signal)) return Promise.resolve(true)
    return new Promise((resolve) => {
      const answer = (isTyped: boolean) => {
        stop()
        this.#questions.delete(question)
        resolve(isTyped)
      }
      const question = { signal, answer }
      const stop = systemEnvironment.timer(patienceMs, () => answer(false), true)
      this.#questions.add(question)
    })
  }

  #report(signal: string | null): void {
    if (signal !== 'SIGINT' && signal !== 'SIGQUIT') return
    const question = [...this.#questions].find((each) => each.signal === signal)
    if (question) {
      question.answer(true)
      return
    }
    this.#reports.push(signal)
    systemEnvironment.timer(patienceMs, () => this.#forget(signal))
  }

  #forget(signal: Typed): boolean {
    const index = this.#reports.indexOf(signal)
    if (index !== -1) this.#reports.splice(index, 1)
    return index !== -1
  }

  end(): void {
    for (const { answer } of this.#questions) answer(true)
    this.#shell.stdin?.end()
  }
}
