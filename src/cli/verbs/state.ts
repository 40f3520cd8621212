/** `holdfast state`: versioned documents. */
import { jsonLines } from '../../domain/text.ts'
import { textLines } from '../drawing.ts'
import { untilInterrupted } from '../interrupt.ts'
import { verb } from '../verb.ts'
import { brief } from '../view.ts'

export const verbs = [
  verb({
    operation: 'state.get',
    summary: 'Get a document with its version.',
    missing: ({ key }) => `there is no document "${key}"`,
    // Just the value, so that another program can read it.
    text: (state) => textLines(jsonLines(state?.value)),
    hint: (state) => (state ? `version ${state.version} by ${state.updatedBy}` : null),
  }),
  verb({
    operation: 'state.set',
    body: 'value',
    makesStore: 'always',
    help: '  holdfast state set config/limits \'{"max":5}\' --expected-version 3',
    text: ({ version }, _view, { key }) => `${String(key)}  version ${version}`,
  }),
  verb({
    noun: 'deleted',
    operation: 'state.delete',
    says: { yes: 'deleted <key>', no: 'there is no document "<key>"', exit: 'NOT_FOUND' },
  }),
  verb({
    operation: 'state.list',
    columns: ['key', 'version', ['saved', 'updatedAt'], ['by', 'updatedBy']],
  }),
  verb({
    operation: 'state.history',
    columns: [
      'version',
      'at',
      'by',
      ['value', ({ value, deleted }) => (deleted ? '(deleted)' : brief(value))],
    ],
  }),
  verb({
    name: 'watch',
    operation: 'state.get',
    summary: 'Print a document now and after each change, until interrupted.',
    options: [
      {
        flags: '--since <version>',
        kind: 'integer',
        description: 'begin with the first version that differs from this one',
      },
    ],
    async act(call) {
      const hf = await call.open()
      const { since } = call.options as { since?: number }
      await untilInterrupted(async (signal) => {
        const watching = hf.state(call.input.key as string).watch({ signal, since })
        for await (const state of watching)
          call.emit(`${state?.version ?? 0}  ${brief(state?.value ?? null)}`, { state })
      })
    },
  }),
]
