/** `holdfast run`: runs a command under a lease. */

import { hasPassword, serverScheme, withoutCredentials } from '../../domain/store-url.ts'
import { errorCodes } from '../../error-codes.ts'
import type { Holdfast } from '../../handle/holdfast.ts'
import { assertStartable, Child, type Ending, exitCodeOfEnding, NotStartedError } from '../child.ts'
import { formatDuration } from '../duration.ts'
import { exitCodeOf } from '../exit.ts'
import { printJsonTalk, printTalk } from '../print.ts'
import { graceDefaultMs, graceMs, readRequest } from '../run-request.ts'
import {
  ownEnding,
  type RunOutcome,
  type RunRequest,
  type RunSubject,
  take,
  unlessLost,
} from '../run-subject.ts'
import { SignalRelay } from '../signal-relay.ts'
import { type Call, verb } from '../verb.ts'
import { type NotClaimed, refusalText } from './item-text.ts'
import { waitOption } from './wait.ts'

interface Ran extends Pick<RunSubject, 'kind' | 'id' | 'token'> {
  readonly outcome: RunOutcome
  /** Who ended the lease: `run` after the command ended, the command itself, or someone else who took it away. */
  readonly endedBy: 'run' | 'command' | 'other'
  readonly exitCode: number
}

export const run = verb({
  name: 'run',
  summary:
    'Run a command under a lease: taken before it starts, renewed while it runs, given back when it ends.',
  arguments: [['<command...>', 'the command and its arguments, after --']],
  options: [
    { flags: '--lock <name>', description: 'hold this lock while it runs' },
    {
      flags: '--queue <name>',
      description: 'claim the next item: exit code 0 completes it, another fails it',
    },
    {
      flags: '--task <ref>',
      description: 'claim this task: exit code 0 completes it, another gives it back with a note',
    },
    { flags: '--next-task', description: 'claim the next task' },
    waitOption,
    {
      flags: '--lease <duration>',
      kind: 'duration',
      description: 'length of the lease, which is renewed; default 30s, on PostgreSQL 60s',
    },
    { flags: '--slots <number>', kind: 'integer', description: 'with --lock: how many may hold it at once' },
    { flags: '--reason <text>', description: 'with --lock: why; kept in the audit' },
    { flags: '--review', description: 'with a task: hand it to review when the command ended well' },
    {
      flags: '--no-store-password',
      description: 'do not pass the store password to the command',
    },
    {
      flags: '--kill-after <duration>',
      kind: 'duration',
      description: `time between TERM and KILL when the lease is lost; default ${formatDuration(graceDefaultMs)}`,
    },
  ],
  makesStore: ({ lock }) => (lock === undefined ? undefined : 'named'),
  lives: true,
  help: `The command's environment has HOLDFAST_TOKEN, HOLDFAST_ID, HOLDFAST_KIND, HOLDFAST_URL, HOLDFAST_NAMESPACE and
HOLDFAST_AGENT; for an item also HOLDFAST_QUEUE, HOLDFAST_KEY and HOLDFAST_PAYLOAD.
The URL includes the store password, unless you give --no-store-password; then a command that uses the store needs
its own (PGPASSWORD, ~/.pgpass).
Signals are passed on: HUP INT QUIT TERM USR1 USR2 ALRM VTALRM PROF IO PWR STKFLT XCPU WINCH TSTP CONT.
A command that was stopped by one gives back what it holds, whatever its exit code. One that goes on for more than a
minute after INT or QUIT was not stopped by it.
When the lease is lost, the command and its whole process group are stopped.
A command that finishes its own work (task complete, queue fail, lock release) is left to run to its end.
Exits with the command's exit code; with 5 if the lease was lost; with 4, 6 or 9 if nothing was claimed.
Stdout belongs to the command: everything else goes to stderr, even with --json.
  holdfast run --lock deploy --wait 10m -- ./deploy.sh
  holdfast run --queue builds --wait -- ./build.sh`,
  act: runCommand,
  text: (answer, view) => ('kind' in answer ? '' : refusalText(answer, view)),
  json: (answer) => ('kind' in answer ? null : answer),
  exit: (answer) => ('kind' in answer ? answer.exitCode : exitCodeOf(answer)),
})

async function runCommand(call: Call): Promise<Ran | NotClaimed> {
  const request = readRequest(call)
  assertStartable({ command: call.rest[0] ?? '', env: call.io.env, cwd: call.io.cwd })
  const hf = await call.open()
  const sharesTerminal = call.io.hasTerminal()
  const signals = new SignalRelay(sharesTerminal)
  try {
    const { interrupted } = signals
    const taken = await takeInTime(hf, { ...request, signal: interrupted }, call)
    if (!('lease' in taken)) return taken
    if (interrupted.aborted) {
      await taken.giveBack('interrupted before the command was started')
      throw interrupted.reason
    }
    const ran = await underLease(taken, { hf, call, signals, sharesTerminal })
    if (call.isJson) printJsonTalk(call.io, ran)
    return ran
  } finally {
    signals.end()
  }
}

/** `--wait` without a duration waits one day at a time, until it succeeds. */
async function takeInTime(hf: Holdfast, request: RunRequest, call: Call): Promise<RunSubject | NotClaimed> {
  // Try once without waiting, so that the user learns what the command is waiting for.
  const first = await take(hf, { ...request, waitMs: 0 })
  if ('lease' in first || request.waitMs === 0 || !passing.includes(first.outcome)) return first
  tellWaiting(first, request, call)
  for (;;) {
    const taken = await take(hf, request)
    if ('lease' in taken || call.options.wait !== true || !passing.includes(taken.outcome)) return taken
  }
}

/** Prints to stderr, because stdout belongs to the command. */
function tellWaiting(answer: NotClaimed, { lock, queue, task }: RunRequest, call: Call): void {
  if (call.isJson) {
    printJsonTalk(call.io, { waiting: answer })
    return
  }
  const subjects = [lock && `lock ${lock}`, queue && `queue ${queue}`, task && `task ${task}`, 'a task']
  const subject = subjects.find((each) => each) as string
  printTalk(call.io, `holdfast: waiting for ${subject}: ${refusalText(answer, call.view)}`)
}

/** Outcomes that waiting may change. */
const passing = ['held', 'offered', 'blocked', 'paused', 'full', 'empty']

/** What a command runs with. */
interface RunScope {
  readonly hf: Holdfast
  readonly call: Call
  readonly signals: SignalRelay
  readonly sharesTerminal: boolean
}

async function underLease(subject: RunSubject, scope: RunScope): Promise<Ran> {
  const { call, signals, sharesTerminal } = scope
  const [command = '', ...args] = call.rest
  const { namespace, agent } = call.settings
  signals.expectCommand()
  try {
    const child = new Child({
      command,
      args,
      cwd: call.io.cwd,
      graceMs: graceMs(call),
      sharesTerminal,
      env: {
        ...withoutLease(call.io.env),
        ...storeFor(call),
        HOLDFAST_NAMESPACE: namespace.value,
        HOLDFAST_AGENT: agent.value,
        HOLDFAST_KIND: subject.kind,
        HOLDFAST_ID: subject.id,
        HOLDFAST_TOKEN: String(subject.token),
        ...subject.env,
      },
    })
    signals.passTo((signal) => child.send(signal))
    const ending = await Promise.race([child.ended, lossOf(subject)])
    if (ending !== 'lost') return await settle(subject, ending, scope)
    const own = await printOwnEnding(subject, scope)
    if (own !== null) return ranTo(subject, own, 'command', exitCodeOfEnding(await child.ended))
    await child.stop()
    return lost(subject, 'the command was stopped', call)
  } catch (error) {
    if (error instanceof NotStartedError) await subject.giveBack('the command could not be started')
    throw error
  }
}

/**
 * Passed in the environment only, because every user can read a command line. If the URL has no password, PGPASSWORD is
 * the store's; if it has one, PGPASSWORD is for something else.
 */
function storeFor({ settings: { store }, options, io }: Call): NodeJS.ProcessEnv {
  if (options.storePassword !== false) return { HOLDFAST_URL: store.value }
  const isTheirs = serverScheme(store.value) === null || hasPassword(store.value)
  return {
    HOLDFAST_URL: withoutCredentials(store.value),
    PGPASSWORD: isTheirs ? io.env.PGPASSWORD : undefined,
  }
}

/** If `run` itself runs under another lease, the variables of that lease must not be mistaken for this one's. */
function withoutLease(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const {
    HOLDFAST_QUEUE: _queue,
    HOLDFAST_KEY: _key,
    HOLDFAST_TITLE: _title,
    HOLDFAST_PAYLOAD: _payload,
    ...others
  } = env
  return others
}

function lossOf({ lease: { signal } }: RunSubject): Promise<'lost'> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve('lost')
    else signal.addEventListener('abort', () => resolve('lost'), { once: true })
  })
}

/** A stop from outside does not count as a failure: what was held is given back as it was. */
async function settle(subject: RunSubject, ending: Ending, scope: RunScope): Promise<Ran> {
  const exitCode = exitCodeOfEnding(ending)
  const outcome = await unlessLost(
    scope.signals.hasStopped(ending)
      ? subject.giveBack('the command was interrupted')
      : subject.finish(ending),
  )
  if (outcome === 'failed' && !scope.call.isJson) printTalk(scope.call.io, failedText(subject, exitCode))
  if (outcome !== 'lost') return ranTo(subject, outcome, 'run', exitCode)
  const own = await printOwnEnding(subject, scope)
  return own === null
    ? lost(subject, `the command had ended with exit code ${exitCode}`, scope.call)
    : ranTo(subject, own, 'command', exitCode)
}

/** A command that finished its work itself has not lost its lease, so it may keep running until it exits. */
async function printOwnEnding(subject: RunSubject, { hf, call }: RunScope): Promise<RunOutcome | null> {
  const outcome = await ownEnding(hf, subject)
  if (outcome !== null && !call.isJson) printTalk(call.io, ownEndingText(subject, outcome))
  return outcome
}

const ownEndings: Readonly<Record<RunOutcome, string>> = {
  done: 'completed',
  failed: 'failed',
  review: 'handed to review',
  moved: 'moved on',
  released: 'released',
  lost: 'lost',
}

function ownEndingText({ kind, id }: RunSubject, outcome: RunOutcome): string {
  return `holdfast: ${kind} ${id} was ${ownEndings[outcome]} by the command itself`
}

function failedText({ kind, id }: RunSubject, exitCode: number): string {
  return `holdfast: ${kind} ${id} failed with exit code ${exitCode}; \`holdfast explain ${id}\` says what happens next`
}

function lost(subject: RunSubject, how: string, { io, isJson }: Call): Ran {
  if (!isJson) printTalk(io, `holdfast: the lease of ${subject.kind} ${subject.id} was lost; ${how}`)
  return ranTo(subject, 'lost', 'other', errorCodes.LEASE_LOST.exit)
}

function ranTo(
  { kind, id, token }: RunSubject,
  outcome: RunOutcome,
  endedBy: Ran['endedBy'],
  exitCode: number,
): Ran {
  return { kind, id, token, outcome, exitCode, endedBy }
}
