/** Reservations of paths: reserve, whoHas. Renewed and released like any lock, by name and token. */
import * as z from 'zod'
import { readPattern } from '../../domain/pattern.ts'
import { maxPathLength } from '../../domain/pattern-syntax.ts'
import {
  covering,
  maxHolding,
  maxPatterns,
  maxReservations,
  reservationPrefix,
  reservePaths,
} from '../../domain/reservation.ts'
import { lazily } from '../../lazily.ts'
import { claimant, holderWith, leaseLength } from '../agent/claimant.ts'
import * as fields from '../fields.ts'
import { lockGrant } from '../lease/lease.ts'
import { change, type OutputOf, operation, reply, type Step } from '../operation.ts'
import { lockView, viewLock } from '../view.ts'
import { user } from './lock.ts'
import { lockRemark } from './lock-change.ts'
import { isHeld } from './read.ts'

/** Parsed before the transaction, where it keeps nobody waiting. The parser's error says more than a schema's would. */
const pattern = lazily(() => fields.text(maxPathLength).refine((text) => readPattern(text) !== null))

const manualLeaseMs = 300_000
const maxShown = 10

const reserveOutcome = lazily(() =>
  z.discriminatedUnion('outcome', [
    z.object({ outcome: z.literal('acquired'), lock: lockView() }),
    z.object({
      outcome: z.literal('held'),
      holder: z.string().nullable(),
      since: z.number().nullable(),
      expiresAt: z.number().nullable(),
      /** Conflicting locks, at most ten. */
      by: z.array(lockView()),
    }),
  ]),
)
export type ReserveOutcome = OutputOf<typeof reserveOutcome>

export const reserve = operation({
  name: 'locks.reserve',
  summary: 'Reserve paths by glob patterns, all or nothing. Held when another reservation overlaps.',
  effect: 'write',
  introduces: 'unbound',
  freshIds: () => 1,
  grants: 'lock',
  input: () => ({
    patterns: z.array(pattern()).min(1).max(maxPatterns).describe('Glob patterns of paths, such as src/**.'),
    mode: z
      .enum(['shared', 'exclusive'])
      .optional()
      .describe('Shared reservations may overlap each other; default exclusive.'),
    reason: fields.reason,
    user: user(),
    leaseMs: fields.leaseMs,
    holding: z
      .array(z.strictObject({ name: fields.name, token: fields.token.unwrap() }))
      .max(maxHolding)
      .optional()
      .describe('Reservations you hold, each by name and token, to be exempt from the overlap check.'),
  }),
  output: reserveOutcome,
  needs: (_input, caller) => ({
    process: claimant(caller),
    reserved: { select: 'reservations', limit: maxReservations },
    floor: { select: 'tokenFloor' },
  }),
  decide({ process, reserved, floor }, input, context): Step<ReserveOutcome> {
    const { now, wall, isDoubtful, manualGraceMs } = context
    const request = {
      ...holderWith(context, process),
      holding: input.holding ?? [],
      name: `${reservationPrefix}${context.ids[0]}`,
      leaseMs: leaseLength(input.leaseMs, context, null, manualLeaseMs),
      reason: input.reason ?? null,
      user: input.user ?? null,
      patterns: input.patterns,
      mode: input.mode ?? 'exclusive',
      quotas: context.quotas,
    }
    const reservation = reservePaths(request, reserved, { now, wall, isDoubtful, manualGraceMs, floor })
    if (reservation.outcome === 'granted') {
      const { after } = reservation
      return {
        changes: [change('lock', null, after, 'lock.acquired', context)],
        result: { outcome: 'acquired', lock: viewLock(after, now) },
        granted: [lockGrant(after)],
      }
    }
    const [first] = reservation.by
    const result = {
      outcome: 'held',
      holder: first?.agent ?? null,
      since: first?.acquiredAt ?? null,
      expiresAt: first?.expiresAt ?? null,
      by: reservation.by.slice(0, maxShown).map((lock) => viewLock(lock, now)),
    } as const
    // Recorded in the audit of each conflicting lock, to show how often agents get in each other's way.
    const remarks = reservation.by.slice(0, maxShown).map((lock) => {
      const detail = { act: 'reserve', holder: lock.agent, patterns: [...input.patterns] }
      return lockRemark('lock.refused', lock, context, { token: null, detail })
    })
    return { changes: [], remarks, result }
  },
})

export const whoHas = operation({
  name: 'locks.whoHas',
  summary: 'List current reservations that cover a path, and locks of that name.',
  effect: 'read',
  input: () => ({
    path: fields.text(maxPathLength).min(1).describe('A path, or the name of a lock.'),
  }),
  output: () => z.array(lockView()),
  needs: ({ path }) => ({
    reserved: { select: 'reservations', limit: maxReservations },
    named: { select: 'lock', name: path },
    file: { select: 'lock', name: `file:${path}` },
  }),
  decide({ reserved, named, file }, { path }, { now }) {
    const holding = [...named, ...file, ...covering(path, reserved)].filter((lock) => isHeld(lock, now))
    return reply(holding.map((lock) => viewLock(lock, now)))
  },
})
