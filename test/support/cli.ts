/** The command line for tests: many commands in this process, each as if it had its own. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { afterAll, onTestFinished } from 'vitest'
import { type Io, main } from '../../dist/cli/program.js'

/** The built command, for tests that need a real process. */
export const program = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

export interface Answer {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface Shell {
  readonly folder: string
  /** Runs a command line in this process. */
  run(...args: string[]): Promise<Answer>
  /** The same with stdin, other environment variables, or a terminal. */
  runWith(options: RunOptions, ...args: string[]): Promise<Answer>
  /** Its JSON, which must be one object on one line. */
  json<Result = Json>(...args: string[]): Promise<Result>
  /** Runs a command line in a separate process. */
  start(...args: string[]): Promise<Answer>
}

export type Json = Record<string, never> & { schemaVersion: number }

export interface RunOptions
  extends Partial<
    Pick<Io, 'columns' | 'rows' | 'hasColors' | 'talkColumns' | 'hasTalkColors' | 'isTalkSeen' | 'cwd'>
  > {
  readonly stdin?: string | Uint8Array
  readonly env?: Readonly<Record<string, string>>
}

/** A new folder outside any repository, and an agent called ada. */
export function aShell(): Shell {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return shellIn(folder)
}

/** One for all tests of a file that only read. */
export function sharedShell(): Shell {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return shellIn(folder)
}

function shellIn(folder: string): Shell {
  const runWith: Shell['runWith'] = async ({ stdin = '', env = {}, ...rest }, ...args) => {
    const said = { stdout: '', stderr: '' }
    const io: Io = {
      out: (text) => {
        said.stdout += text
      },
      err: (text) => {
        said.stderr += text
      },
      stdin: Readable.from(stdin === '' ? [] : [stdin]),
      env: { PATH: process.env.PATH, HOLDFAST_AGENT: 'ada', XDG_STATE_HOME: join(folder, 'state'), ...env },
      cwd: folder,
      isTerminal: false,
      isTalkSeen: false,
      hasTerminal: () => false,
      canAsk: false,
      columns: null,
      rows: null,
      hasColors: false,
      talkColumns: null,
      hasTalkColors: false,
      ...rest,
    }
    return { code: await main(args, io, '0.0.0'), ...said }
  }
  const run: Shell['run'] = (...args) => runWith({}, ...args)
  return {
    folder,
    run,
    runWith,
    json: async (...args) => JSON.parse((await run(...args, '--json')).stdout),
    start: (...args) => startIn(folder, args),
  }
}

function startIn(folder: string, args: readonly string[]): Promise<Answer> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [program, ...args],
      { cwd: folder, env: cleanEnvironment() },
      (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
    )
  })
}

/** The environment of a shell, without the settings of the person who runs the tests. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith('HOLDFAST_'))
  return { ...Object.fromEntries(others), NO_COLOR: '1', HOLDFAST_AGENT: 'ada' }
}

/**
 * What was typed and what came of it, with everything that differs from run to run replaced: ids, tokens, times,
 * durations and processes.
 */
export class Transcript {
  readonly #names = new Map<string, string>()
  readonly #folder: string
  #text = ''

  constructor(folder: string) {
    this.#folder = folder
  }

  add(args: readonly string[], { code, stdout, stderr }: Answer): void {
    const typed = args.map((arg) => (/^[\w./:=@,+-]+$/.test(arg) ? arg : `'${arg}'`)).join(' ')
    const shown = [stdout, stderr === '' ? '' : `(stderr)\n${stderr}`].filter((part) => part !== '')
    this.#text += `$ holdfast ${typed}\n${shown.join('')}${code === 0 ? '' : `(exit ${code})\n`}\n`
  }

  get text(): string {
    return (
      this.#text
        .replace(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, (id) =>
          this.#name(id, 'id'),
        )
        .replace(/\b1[78]\d{14}\b/g, (token) => this.#name(token, 'token'))
        .replace(/\b1[78]\d{11}\b/g, '<ms>')
        .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, '<time>')
        .replace(
          /"(remainingMs|expiredForMs|elapsedMs|expiredMs|oldestReadyMs|dueInMs|givesUpInMs|etaMs|inMs)":-?\d+/g,
          '"$1":<ms>',
        )
        .replace(/"ratePerSecond":[\d.]+/g, '"ratePerSecond":<rate>')
        .replace(/\b(?:\d+[dhms]{1,2})+( left| ago| to go)/g, '<duration>$1')
        .replace(/^(oldest ready|left)( +)\S+/gm, '$1$2<duration>')
        .replace(/\b(again|next +)in (?:\d+[dhms]{1,2})+/g, '$1in <duration>')
        .replace(/(ready for|\d) (?:\d+[dhms]{1,2})+$/gm, '$1 <duration>')
        .replace(/^(\S+(?: +\d+){5} +)(?:\d+[dhms]{1,2})+/gm, '$1<duration>')
        .replace(/\d+ \w+, log \d+ \w+, \d+ \w+ free/g, '<size>')
        .replace(/sqlite \d+\.\d+\.\d+|"engineVersion":"[^"]*"/g, '<sqlite>')
        .replace(/("durability":"\w+","schemaVersion":)\d+/g, '$1<number>')
        .replace(/"(ms|shiftMs)":-?\d+/g, '"$1":<ms>')
        .replace(/original \((?:\d+[dhms]{1,2})+\)/g, 'original (<duration>)')
        .replace(/\b[0-9a-f]{16}(?:[0-9a-f]{48})?\b/g, '<digest>')
        .replace(/\bschema \d+/g, 'schema <number>')
        .replace(/Holdfast [^\s"]+ on Node [^\s"]+/g, '<version>')
        .replace(/lapsed -?\d+ ms ago/g, 'lapsed <ms> ago')
        .replace(/no sign of life for \d+ ms/g, 'no sign of life for <ms>')
        .replaceAll(this.#folder, '<folder>')
        .replaceAll(hostname(), '<host>')
        .replace(new RegExp(`\\b${process.pid}\\b`, 'g'), '<pid>')
        .replace(/"(bootId|pidNamespace|startTime)":"[^"]*"/g, '"$1":"<$1>"')
        // The width of a column depends on the replaced text.
        .replace(/ {2,}/g, '  ')
        .replace(/ +$/gm, '')
    )
  }

  #name(text: string, kind: string): string {
    const known = this.#names.get(text)
    if (known !== undefined) return known
    const count = [...this.#names.values()].filter((name) => name.startsWith(`<${kind}`)).length
    const name = `<${kind}-${count + 1}>`
    this.#names.set(text, name)
    return name
  }
}
