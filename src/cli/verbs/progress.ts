/** `holdfast runs`: the progress of runs. */

import { errorCodes } from '../../errors.ts'
import type { ProgressView } from '../../operations/run/view.ts'
import { inPieces } from '../../runtime/session/input.ts'
import { type Drawing, lines } from '../drawing.ts'
import { verb } from '../verb.ts'
import { brief, type View } from '../view.ts'
import { withNext } from './item-text.ts'
import { progressBar } from './progress-text.ts'

function runLine(run: ProgressView): string {
  return `${run.run}  ${run.status}  ${progressBar(run)}`
}

const underLock = { positional: ['run'], holds: 'run', text: runLine } as const

const start = verb({
  name: 'start',
  noun: 'progress',
  operation: 'runs.start',
  ...underLock,
  help: '  holdfast lock acquire evaluation --run spring\n  holdfast runs start spring --lock evaluation --total 500',
})

const resume = verb({
  name: 'resume',
  noun: 'progress',
  operation: 'runs.resume',
  ...underLock,
})

const record = verb({
  name: 'record',
  operation: 'runs.record',
  positional: ['run'],
  holds: 'run',
  help: '  holdfast runs record spring --done 10 --failed 1',
  text: ({ progress }) => runLine(progress),
})

const pause = verb({
  name: 'pause',
  noun: 'progress',
  operation: 'runs.pause',
  positional: ['run'],
  text: runLine,
})

const fail = verb({
  name: 'fail',
  noun: 'progress',
  operation: 'runs.fail',
  ...underLock,
})

const reopen = verb({
  name: 'reopen',
  noun: 'progress',
  operation: 'runs.reopen',
  positional: ['run'],
  text: runLine,
})

const remove = verb({
  name: 'remove',
  operation: 'runs.remove',
  summary: 'Remove a run that is not running, with its outcomes.',
  positional: ['run'],
  async act(call) {
    const pieces = await inPieces((piece) => call.execute('runs.remove', call.input, piece))
    return { removed: pieces.at(-1)?.removed === true }
  },
  text: ({ removed }, _view, { run }) => (removed ? `removed ${run}` : `there is no run "${run}"`),
  exit: ({ removed }) => (removed ? 0 : errorCodes.NOT_FOUND.exit),
})

function runPairs(run: ProgressView, view: View): Drawing {
  return view.pairs([
    ['run', run.run],
    ['lock', run.lock],
    ['status', run.status],
    ['progress', progressBar(run)],
    ['done', run.done],
    ['failed', run.failed],
    ['skipped', run.skipped],
    ['cursor', run.cursor == null ? null : brief(run.cursor)],
    ['started', view.time(run.startedAt)],
    ['last record', view.time(run.updatedAt)],
    ['ended', run.endedAt === null ? null : view.time(run.endedAt)],
    ['version', run.version],
  ])
}

const show = verb({
  name: 'show',
  operation: 'runs.get',
  summary: 'Get the progress of a run.',
  positional: ['run'],
  missing: ({ run }) => `there is no run "${run}"`,
  text: (run, view) => runPairs(run as ProgressView, view),
  json: (run) => ({ progress: run }),
})

const list = verb({
  name: 'list',
  operation: 'runs.list',
  text: ({ runs, next }, view) =>
    withNext(
      view.table(
        ['run', 'status', 'lock', 'last record', 'progress'],
        runs.map((run) => [run.run, run.status, run.lock, view.time(run.updatedAt), progressBar(run)]),
      ),
      next,
      view,
    ),
})

const outcomes = verb({
  name: 'outcomes',
  operation: 'runs.outcomes',
  positional: ['run'],
  text: ({ outcomes: all, next }, view) =>
    withNext(
      view.table(
        ['key', 'outcome', 'at', 'error'],
        all.map(({ key, outcome, at, error }) => [key, outcome, view.time(at), error ?? '']),
      ),
      next,
      view,
    ),
})

const remaining = verb({
  name: 'remaining',
  operation: 'runs.remaining',
  positional: ['run', 'keys'],
  text: (keys) => lines(keys),
  json: (keys) => ({ remaining: keys }),
})

const shouldStop = verb({
  name: 'should-stop',
  operation: 'runs.shouldStop',
  positional: ['run'],
  holds: 'run',
  help: 'Exit code 0: continue; 9: do not start another item.',
  text: ({ stop, reason }) => (stop ? `stop: ${reason ?? ''}` : 'go on'),
  exit: ({ stop }) => (stop ? errorCodes.PAUSED.exit : 0),
})

export const progressVerbs = [
  start,
  resume,
  record,
  pause,
  fail,
  reopen,
  remove,
  show,
  list,
  outcomes,
  remaining,
  shouldStop,
]
