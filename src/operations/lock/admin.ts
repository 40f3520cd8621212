/** What an operator does with locks: force release, transfer. Each needs a reason and tells the holder. */
import * as z from 'zod'
import { type Lock, manualLockMs } from '../../domain/lock.ts'
import { loseLock, transferLock } from '../../domain/lock-line.ts'
import { isOver } from '../../domain/reservation.ts'
import { InvalidError, NotFoundError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import * as fields from '../fields.ts'
import { lockGrant } from '../lease/lease.ts'
import { change, operation, reply, type Step } from '../operation.ts'
import { lockView, viewLock } from '../view.ts'
import { pausing } from './lock-change.ts'
import { lockName } from './name.ts'

const token = lazily(() => fields.token.describe('Only the slot under this token; without it, every slot.'))

export const forceRelease = operation({
  name: 'locks.forceRelease',
  summary: "Force-release a lock. The holder's signal fires; a lock delay still applies.",
  effect: 'admin',
  needsReason: true,
  tokenIdentifies: 'request',
  input: () => ({
    name: fields.name.describe('Name of the lock.'),
    token: token(),
    reason: fields.operatorReason(),
  }),
  output: () => z.object({ released: z.number() }),
  needs: ({ name }) => ({ locks: { select: 'lock', name } }),
  decide({ locks }, input, context) {
    const ended = locks.filter(
      (lock) => lock.delayedSince === null && lock.token === (input.token ?? lock.token),
    )
    return forcing(ended, { released: ended.length }, input.reason, context)
  },
})

const maxPerAgent = 200
/** A dry run blocks nobody, so it may look at more. */
const maxDryRun = 10_000

export const forceReleaseAgent = operation({
  name: 'locks.forceReleaseAgent',
  summary: 'Force-release every named lock and reservation of an agent; at most 200 per call.',
  effect: 'admin',
  needsReason: true,
  input: () => ({
    agent: fields.name.describe('Whose locks.'),
    reason: fields.operatorReason(),
    dryRun: fields.dryRun,
  }),
  output: () => z.object({ released: z.number(), more: z.boolean() }),
  needs: ({ agent, dryRun }) => ({
    held: { select: 'namedLocksOf', agent, limit: dryRun ? maxDryRun : maxPerAgent },
  }),
  decide({ held }, input, context): Step<{ released: number; more: boolean }> {
    if (input.dryRun) {
      return reply({ released: held.length, more: held.length === maxDryRun })
    }
    const result = { released: held.length, more: held.length === maxPerAgent }
    return forcing(held, result, input.reason, context)
  },
})

function forcing<Result>(
  ended: readonly Lock[],
  result: Result,
  reason: string,
  context: Context,
): Step<Result> {
  const changes = ended.map((before) => {
    const detail = { holder: before.agent, token: before.token, reason }
    return change('lock', before, loseLock(before, context.now), 'lock.forced', context, detail)
  })
  return pausing(ended, `its lock was released by force: ${reason}`, { changes, result }, context)
}

export const transfer = operation({
  name: 'locks.transfer',
  summary: 'Transfer a lock to another agent under a new token. The former holder is fenced off.',
  effect: 'admin',
  needsReason: true,
  tokenIdentifies: 'request',
  input: () => ({
    name: lockName(),
    to: fields.name.describe('The agent that gets it, as a manual lease.'),
    token: fields.token.describe('Which slot, when several are held.'),
    leaseMs: fields.leaseMs,
    reason: fields.operatorReason(),
  }),
  output: lockView,
  needs: ({ name }) => ({ locks: { select: 'lock', name } }),
  decide({ locks }, input, context) {
    const before = onlySlot(input.name, locks, input.token, context.now)
    const to = {
      agent: input.to,
      leaseMs: input.leaseMs ?? manualLockMs(input.name),
      reason: input.reason,
    }
    const after = transferLock(before, locks, to, context)
    const detail = { from: before.agent, previousToken: before.token, to: input.to, reason: input.reason }
    const decision = {
      changes: [change('lock', before, after, 'lock.transferred', context, detail)],
      result: viewLock(after, context.now),
      granted: [lockGrant(after)],
    }
    return pausing([before], `its lock was transferred to ${input.to}`, decision, context)
  },
})

function onlySlot(name: string, locks: readonly Lock[], token: number | undefined, now: number): Lock {
  const held = locks.filter(
    (lock) => lock.delayedSince === null && !isOver(lock, now) && lock.token === (token ?? lock.token),
  )
  const [lock] = held
  if (!lock) {
    throw new NotFoundError({
      what: `nobody holds lock ${name}${token === undefined ? '' : ` under token ${token}`}`,
      next: 'acquire it instead',
      facts: { name, token },
    })
  }
  if (held.length === 1) return lock
  throw new InvalidError({
    what: `${held.length} slots of lock ${name} are held`,
    next: 'give the token of the one to transfer',
    facts: { name, tokens: held.map((each) => each.token) },
  })
}
