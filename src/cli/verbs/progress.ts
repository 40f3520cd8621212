/** `holdfast runs`: the progress of runs. */

import { errorCodes } from '../../error-codes.ts'
import type { RunView } from '../../operations/run/view.ts'
import { inPieces } from '../../runtime/session/input.ts'
import { verb } from '../verb.ts'
import { progressBar } from './progress-text.ts'

function runLine(run: RunView): string {
  return `${run.run}  ${run.status}  ${progressBar(run)}`
}

/** Acts on a run and answers with its progress. */
const onRun = { noun: 'progress', positional: ['run'], text: runLine } as const

/** The same, for whoever holds the run's lock. */
const underLock = { ...onRun, holds: 'run' } as const

export const progressVerbs = [
  verb({
    name: 'start',
    operation: 'runs.start',
    ...underLock,
    help: '  holdfast lock acquire evaluation --run spring\n  holdfast runs start spring --lock evaluation --total 500',
  }),
  verb({ name: 'resume', operation: 'runs.resume', ...underLock }),
  verb({
    name: 'record',
    operation: 'runs.record',
    positional: ['run'],
    holds: 'run',
    help: '  holdfast runs record spring --done 10 --failed 1',
    text: ({ progress }) => runLine(progress),
  }),
  verb({ name: 'pause', operation: 'runs.pause', ...onRun }),
  verb({ name: 'fail', operation: 'runs.fail', ...underLock }),
  verb({ name: 'reopen', operation: 'runs.reopen', ...onRun }),
  verb({
    name: 'remove',
    noun: 'removed',
    operation: 'runs.remove',
    summary: 'Remove a run that is not running, with its outcomes.',
    positional: ['run'],
    async act(call) {
      const pieces = await inPieces((piece) => call.execute('runs.remove', call.input, piece))
      return pieces.at(-1)?.removed === true
    },
    says: { yes: 'removed <run>', no: 'there is no run "<run>"', exit: 'NOT_FOUND' },
  }),
  verb({
    name: 'show',
    noun: 'progress',
    operation: 'runs.get',
    summary: 'Get the progress of a run.',
    positional: ['run'],
    missing: ({ run }) => `there is no run "${run}"`,
    details: [
      'run',
      'lock',
      'status',
      ['progress', progressBar],
      'done',
      'failed',
      'skipped',
      'cursor',
      ['started', 'startedAt'],
      ['last record', 'updatedAt'],
      ['ended', 'endedAt'],
      'version',
    ],
  }),
  verb({
    name: 'list',
    operation: 'runs.list',
    columns: ['run', 'status', 'lock', ['last record', 'updatedAt'], ['progress', progressBar]],
  }),
  verb({
    name: 'outcomes',
    operation: 'runs.outcomes',
    positional: ['run'],
    columns: ['key', 'outcome', 'at', 'error'],
  }),
  verb({
    name: 'remaining',
    noun: 'remaining',
    operation: 'runs.remaining',
    positional: ['run', 'keys'],
  }),
  verb({
    name: 'should-stop',
    operation: 'runs.shouldStop',
    positional: ['run'],
    holds: 'run',
    help: 'Exit code 0: continue; 9: do not start another item.',
    text: ({ stop, reason }) => (stop ? `stop: ${reason ?? ''}` : 'go on'),
    exit: ({ stop }) => (stop ? errorCodes.PAUSED.exit : 0),
  }),
]
