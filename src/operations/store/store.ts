/** The store itself: its clocks, and what a process has found out about it. */
import * as z from 'zod'
import { lossSubject } from '../../domain/commit-loss.ts'
import { operation, reply } from '../operation.ts'

const batch = () => z.int().min(0).nullable()

export const noteCommitLoss = operation({
  name: 'store.noteCommitLoss',
  summary: 'Record that the server has lost acknowledged commits.',
  effect: 'write',
  class: 'internal',
  input: () => ({
    timeline: z.int().min(0).describe('Timeline of the server that answers now.'),
    known: z.int().min(0).describe('Timeline of the server that acknowledged.'),
    acknowledged: batch().describe('The last acknowledged batch; null: of another process.'),
    found: batch().describe('The last batch that is there; null: none.'),
    durability: z.enum(['full', 'normal']).describe('What this process had requested.'),
  }),
  output: () => z.null(),
  needs: () => ({}),
  decide(_rows, detail, { agent }) {
    const remark = {
      kind: 'store.commits_lost',
      agent,
      ...lossSubject,
      queue: null,
      token: null,
      detail,
    } as const
    return { changes: [], remarks: [remark], result: null }
  },
})

export const read = operation({
  name: 'clock.read',
  summary: "Get the store's lease clock, which `expiresAt` uses, and its wall time.",
  effect: 'read',
  class: 'client',
  input: () => ({}),
  output: () => z.object({ now: z.number(), wall: z.number() }),
  needs: () => ({}),
  decide: (_rows, _input, { now, wall }) => reply({ now, wall }),
})
