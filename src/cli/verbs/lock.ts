/** `holdfast lock`: named locks and reservations. */

import { counted } from '../../domain/count.ts'
import { shown } from '../../domain/text.ts'
import { errorCodes } from '../../error-codes.ts'
import { InvalidError } from '../../errors.ts'
import type { NamedAcquireOutcome } from '../../operations/lock/lock.ts'
import type { LockInfo } from '../../operations/lock/read.ts'
import type { LockView } from '../../operations/view.ts'
import { given, inPieces, sumOf } from '../../runtime/session/input.ts'
import { lines } from '../drawing.ts'
import { whileInterruptible } from '../interrupt.ts'
import { type Column, drawTable } from '../layout.ts'
import { type Call, verb } from '../verb.ts'
import type { View } from '../view.ts'
import { forPid } from './claim-options.ts'
import { acquiring, holderText, lockGrant, lockLine } from './item-text.ts'
import { progressBar } from './progress-text.ts'
import { manyRequests, waitOption, waitOptionMs } from './wait.ts'

/** With `--wait`, joins the line; first come, first served. */
async function acquireWaiting(call: Call<'locks.acquireLock'>): Promise<NamedAcquireOutcome> {
  const waitMs = waitOptionMs(call)
  if (waitMs === 0) return call.execute('locks.acquireLock', call.input)
  if (call.idempotencyKey !== undefined) throw manyRequests()
  const { name, ...input } = call.input
  const hf = await call.open()
  await call.bindToRegistered()
  return whileInterruptible(async (signal) => {
    for (;;) {
      const { lease, ...answer } = {
        lease: null,
        ...(await hf.locks.acquireLock(name, {
          ...given(input),
          waitMs,
          signal,
          ...(call.instance === undefined ? {} : { instance: call.instance }),
        })),
      }
      if (answer.outcome === 'acquired' || call.options.wait !== true) return answer
    }
  })
}

function stateText({ stale, isLocked }: LockInfo): string {
  if (stale) return 'free (its last lease lapsed)'
  return isLocked ? 'held' : 'free'
}

function holderOf({ slots, token, holder }: LockInfo, view: View): string | null {
  const slot = slots.find(({ lease }) => lease.token === token)
  return slot && holder !== null ? holderText(slot.lease, view) : null
}

const lockColumns: readonly Column<LockView>[] = [
  ['lock', 'name'],
  'slot',
  ['since', 'acquiredAt'],
  [
    'holder',
    ({ delayed, lease }, view) => (delayed ? 'nobody (delay after a loss)' : holderText(lease, view)),
  ],
  ['for', ({ patterns, run, reason }) => [...(patterns ?? []), run, reason].filter((part) => part).join(' ')],
]

/** Uses the tokens stored by the commands that made the reservations, unless they are given. */
function holdingIn(call: Call): { holding?: { name: string; token: number }[] } {
  const { holding } = call.options as { holding?: readonly string[] }
  if (holding === undefined) return {}
  return { holding: holding.map((text) => heldBefore(text, call)) }
}

function heldBefore(text: string, { leases }: Call): { name: string; token: number } {
  const [, given = text, written] = /^(.*)=(\d{1,16})$/.exec(text) ?? []
  const token = written === undefined ? leases.find({ kind: 'lock', name: given }) : Number(written)
  if (token !== undefined) return { name: given, token }
  throw new InvalidError({
    what: `--holding: no token for ${shown(text)} is saved here`,
    next: 'give name=token, as the reservation returned them',
  })
}

export const verbs = [
  verb<'locks.acquireLock'>({
    name: 'acquire',
    operation: 'locks.acquireLock',
    hides: ['wait', 'waiter'],
    options: [forPid, waitOption],
    act: acquireWaiting,
    makesStore: 'named',
    help: 'Exit code 4: someone else holds it. `holdfast run --lock` holds one for as long as a command runs.',
    ...acquiring,
    text(answer, view) {
      const from = answer.outcome === 'acquired' ? answer.recoveredFrom : null
      const taken = from === null ? '' : `, taken over from ${from.holder ?? 'an unknown agent'}`
      return `${acquiring.text(answer, view)}${taken}`
    },
  }),
  verb({
    name: 'release',
    operation: 'locks.releaseLock',
    isOver: ({ depth }) => depth === 0,
    text({ released, depth }, _view, { name }) {
      if (!released) return `not released: you do not hold ${name}`
      return depth === 0 ? 'released' : `released once, ${depth} to go`
    },
    exit: ({ released }) => (released ? 0 : errorCodes.LEASE_LOST.exit),
  }),
  verb({
    name: 'renew',
    operation: 'locks.renewLock',
  }),
  verb({
    name: 'status',
    operation: 'locks.getCurrentLockInfo',
    details: [
      ['lock', 'name'],
      ['state', stateText],
      ['for', ({ lockedBy, holder }) => (lockedBy === holder ? null : lockedBy)],
      ['holder', (info, view) => (info.stale ? null : holderOf(info, view))],
      ['last holder', (info, view) => (info.stale ? holderOf(info, view) : null)],
      ['user', 'lockedByUser'],
      ['reason', 'lockReason'],
      ['since', 'lockedAt'],
      ['until', ({ expiresAt }, view) => (expiresAt === null ? null : view.leaseTime(expiresAt))],
      ['slots', ({ slots }) => (slots.length > 1 ? slots.length : null)],
      ['waiting', ({ waiting }) => waiting || null],
      ['progress', ({ progress }) => progress && `${progress.status}  ${progressBar(progress)}`],
      'token',
    ],
  }),
  verb({ operation: 'locks.list', columns: lockColumns }),
  verb({
    noun: 'locks',
    operation: 'locks.whoHas',
    text: (locks, view) => (locks.length === 0 ? 'nobody' : drawTable(lockColumns, locks, view)),
  }),
  verb<'locks.reserve'>({
    operation: 'locks.reserve',
    hides: ['holding'],
    options: [
      forPid,
      {
        flags: '--holding <name>',
        description: 'a reservation of your own to ignore; name=token if its token is not saved here',
        isRepeatable: true,
      },
    ],
    act: (call) => call.execute('locks.reserve', { ...call.input, ...holdingIn(call) }),
    makesStore: 'named',
    help: "Renew and release it like a lock, by the name it was given.\n  holdfast lock reserve 'src/parser/**' --reason 'rewriting it'",
    ...acquiring,
    text(answer, view) {
      const text = acquiring.text(answer, view)
      return answer.outcome === 'acquired' ? text : lines([text, drawTable(lockColumns, answer.by, view)])
    },
  }),
  verb({
    operation: 'locks.forceRelease',
    positional: ['name'],
    help: 'For operators: the holder is notified, and refused from then on. The reason is recorded.',
    text: ({ released }) => (released === 0 ? 'nobody held it' : `released ${released}`),
    exit: ({ released }) => (released === 0 ? errorCodes.NOT_FOUND.exit : 0),
  }),
  verb({
    operation: 'locks.forceReleaseAgent',
    summary: 'Force-release every named lock and reservation of an agent.',
    // --agent names the caller, so the agent whose locks are released is given by position.
    positional: ['agent'],
    asks: async (call) => {
      const { released } = await call.preview('locks.forceReleaseAgent', call.input)
      return released === 0 ? null : `This takes ${counted(released, 'lock')} from ${call.input.agent}.`
    },
    async act(call) {
      const dryRun = call.input.dryRun === true
      const execute = (piece: number) => call.execute('locks.forceReleaseAgent', call.input, piece)
      const pieces = await inPieces(execute, () => dryRun)
      return { released: sumOf(pieces, ({ released }) => released), dryRun }
    },
    text: ({ released, dryRun }) => `${dryRun ? 'would release' : 'released'} ${released}`,
  }),
  verb({
    operation: 'locks.transfer',
    positional: ['name', 'to'],
    grants: (lock, { input }) => [
      { ...lockGrant(lock), agent: input.to as string, former: input.token as number | undefined },
    ],
    text: (lock, view) => `${lockLine(lock, view)}, held by ${lock.holder ?? ''}`,
  }),
  verb({
    noun: 'held',
    operation: 'locks.isLockedBy',
    positional: ['name', 'agent'],
  }),
  verb({ noun: 'held', operation: 'locks.isAnyLocked' }),
]
