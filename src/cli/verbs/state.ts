/** `holdfast state`: versioned documents. */
import { jsonLines } from '../../domain/text.ts'
import { errorCodes } from '../../error-codes.ts'
import { InvalidError } from '../../errors.ts'
import { lines, textLines } from '../drawing.ts'
import { verb } from '../verb.ts'
import { brief } from '../view.ts'
import { withNext } from './item-text.ts'
import { untilInterrupted } from './stream.ts'

const get = verb({
  name: 'get',
  operation: 'state.get',
  summary: 'Get a document with its version.',
  positional: ['key'],
  missing: ({ key }) => `there is no document "${key}"`,
  // Just the value, so that another program can read it.
  text: (state) => textLines(jsonLines(state?.value)),
  hint: (state) => (state ? `version ${state.version} by ${state.updatedBy}` : null),
})

const set = verb({
  name: 'set',
  operation: 'state.set',
  positional: ['key', 'value'],
  body: 'value',
  makesStore: true,
  help: '  holdfast state set config/limits \'{"max":5}\' --expected-version 3',
  text: ({ version }, _view, { key }) => `${String(key)}  version ${version}`,
})

const remove = verb({
  name: 'delete',
  operation: 'state.delete',
  positional: ['key'],
  text: (removed, _view, { key }) => (removed ? `deleted ${key}` : `there is no document "${key}"`),
  json: (removed) => ({ deleted: removed }),
  exit: (removed) => (removed ? 0 : errorCodes.NOT_FOUND.exit),
})

const list = verb({
  name: 'list',
  operation: 'state.list',
  text: ({ states, next }, view) =>
    withNext(
      view.table(
        ['key', 'version', 'saved', 'by'],
        states.map(({ key, version, updatedAt, updatedBy }) => [
          key,
          version,
          view.time(updatedAt),
          updatedBy,
        ]),
      ),
      next,
      view,
    ),
})

const history = verb({
  name: 'history',
  operation: 'state.history',
  positional: ['key'],
  text: ({ entries, next }, view) => {
    const rows = entries.map(({ version, at, by, value, deleted }) => [
      version,
      view.time(at),
      by ?? '',
      deleted ? '(deleted)' : brief(value),
    ])
    const table = view.table(['version', 'at', 'by', 'value'], rows)
    return next === null ? table : lines([table, view.colors.dim(`more: --before ${next}`)])
  },
})

const watch = verb({
  name: 'watch',
  operation: 'state.get',
  summary: 'Print a document now and after each change, until interrupted.',
  positional: ['key'],
  options: [
    { flags: '--since <version>', description: 'begin with the first version that differs from this one' },
  ],
  async act(call) {
    const hf = await call.open()
    const { since } = call.options as { since?: string }
    if (since !== undefined && !/^\d{1,15}$/.test(since)) {
      throw new InvalidError({
        what: `--since: "${since}" is not a version`,
        next: 'give the version you know, 0 for none',
      })
    }
    await untilInterrupted(async (signal) => {
      const watching = hf.state(call.input.key as string).watch({
        signal,
        ...(since === undefined ? {} : { since: Number(since) }),
      })
      for await (const state of watching)
        call.emit(`${state?.version ?? 0}  ${brief(state?.value ?? null)}`, { state })
    })
  },
  text: () => '',
})

export const stateVerbs = [get, set, remove, list, history, watch]
