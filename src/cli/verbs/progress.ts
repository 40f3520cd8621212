/** `holdfast runs`: the progress of runs. */

import { errorCodes } from '../../error-codes.ts'
import { inPieces } from '../../runtime/session/input.ts'
import { verb } from '../verb.ts'
import { progressBar, runLine } from './progress-text.ts'

export const verbs = [
  verb({
    operation: 'runs.start',
    positional: ['run'],
    help: '  holdfast lock acquire evaluation --run spring\n  holdfast runs start spring --lock evaluation --total 500',
  }),
  verb({ operation: 'runs.resume', positional: ['run'] }),
  verb({
    operation: 'runs.record',
    help: '  holdfast runs record spring --done 10 --failed 1',
    text: ({ progress }) => runLine(progress),
  }),
  verb({ operation: 'runs.pause' }),
  verb({ operation: 'runs.fail', positional: ['run'] }),
  verb({ operation: 'runs.reopen' }),
  verb({
    noun: 'removed',
    operation: 'runs.remove',
    summary: 'Remove a run that is not running, with its outcomes.',
    async act(call) {
      const pieces = await inPieces((piece) => call.execute('runs.remove', call.input, piece))
      return pieces.at(-1)?.removed === true
    },
    says: { yes: 'removed <run>', no: 'there is no run "<run>"', exit: 'NOT_FOUND' },
  }),
  verb({
    name: 'show',
    operation: 'runs.get',
    summary: 'Get the progress of a run.',
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
    operation: 'runs.list',
    columns: ['run', 'status', 'lock', ['last record', 'updatedAt'], ['progress', progressBar]],
  }),
  verb({
    operation: 'runs.outcomes',
    columns: ['key', 'outcome', 'at', 'error'],
  }),
  verb({
    noun: 'remaining',
    operation: 'runs.remaining',
  }),
  verb({
    operation: 'runs.shouldStop',
    help: 'Exit code 0: continue; 9: do not start another item.',
    text: ({ stop, reason }) => (stop ? `stop: ${reason ?? ''}` : 'go on'),
    exit: ({ stop }) => (stop ? errorCodes.PAUSED.exit : 0),
  }),
]
