/**
 * Keeps concurrent updates of one document, each of which reads, changes and saves, out of each other's way: an update
 * that lost to another goes first for a while, and the others hold back. This affects only the order. Whether a save is
 * allowed depends on the version alone.
 */
import * as z from 'zod'
import { giveWay as giveWayTo, heldBackMs, prefer as preferUpdate, type State } from '../../domain/state.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import * as fields from '../fields.ts'
import { type OutputOf, operation, reply, view } from '../operation.ts'
import { saved, savedView, setInput, stateNeeds, stateView, viewState, writeNeeds } from './state.ts'

const update = lazily(() => fields.text(100).describe('Id of the update.'))
const input = lazily(() => ({ key: setInput().key, update: update() }))

const foundView = view(() => ({
  entry: stateView().nullable(),
  /** How long another update goes first; 0 = go ahead. */
  heldBackMs: z.number(),
}))
/** A document as an update finds it. */
export type FoundState = OutputOf<typeof foundView>

const finds = { class: 'client', input, output: foundView, needs: stateNeeds } as const

function found(state: State | null, id: string, { now }: Context): FoundState {
  return { entry: state && viewState(state), heldBackMs: heldBackMs(state, id, now) }
}

export const look = operation({
  name: 'state.look',
  summary: 'Get a document, and whether another update goes first.',
  effect: 'read',
  ...finds,
  decide: ({ state }, { update: id }, context) => reply(found(state, id, context)),
})

export const prefer = operation({
  name: 'state.prefer',
  summary: 'Read a document for an update that has lost twice, and let that update go first.',
  effect: 'write',
  ...finds,
  decide({ state }, { update: id }, context) {
    const result = found(state, id, context)
    if (state === null || result.heldBackMs > 0) return reply(result)
    return {
      changes: [{ table: 'state', before: state, after: preferUpdate(state, id, context.now) }],
      result,
    }
  },
})

export const giveWay = operation({
  name: 'state.giveWay',
  summary: 'Give up the right to update first.',
  effect: 'write',
  class: 'client',
  input,
  output: () => z.boolean(),
  needs: stateNeeds,
  decide({ state }, { update: id }) {
    const after = state && giveWayTo(state, id)
    if (!after) return reply(false)
    return { changes: [{ table: 'state', before: state, after }], result: true }
  },
})

export const save = operation({
  name: 'state.save',
  summary: 'Save the result of an update.',
  effect: 'write',
  class: 'client',
  input: () => ({ ...setInput(), update: update() }),
  output: savedView,
  needs: writeNeeds,
  decide: saved,
})
