/** Every option of `open` in one place: its description, unit, default and bounds. */
import { resolve } from 'node:path'
import * as z from 'zod'
import { type Adapter, isAdapter } from './delivery/adapter.ts'
import { assertRenewable } from './domain/lease.ts'
import { isName } from './domain/name.ts'
import { defaultQuotas, type Quotas } from './domain/quota.ts'
import { inboxAdapter } from './domain/recipient.ts'
import type { Environment } from './environment.ts'
import { InvalidError } from './errors.ts'
import { check, type Issue } from './issue.ts'
import type { Logger } from './logger.ts'

const dayMs = 86_400_000
const name = z.string().refine(isName, { error: 'is not a usable name' })

/** A whole number within bounds. */
function whole(min: number, max?: number): z.ZodInt {
  const number = z.int().min(min)
  return max === undefined ? number : number.max(max)
}

const restartReason = 'Server restart - run paused'

const recovery = z.strictObject({
  onOpen: z.boolean().default(true).describe('Recover when a store is opened.'),
  onClaim: z.boolean().default(true).describe('Recover before claims, once per batch.'),
  onWait: z
    .boolean()
    .default(true)
    .describe('Look for dead holders on this machine once a second while a call waits for work or a lock.'),
  everyMs: whole(0, 3_600_000).default(5_000).describe('How often to recover, ms; 0 = never.'),
  probeEveryMs: whole(0, 60_000)
    .default(250)
    .describe('How often to look for dead holders on this machine, ms; 0 = never.'),
  pauseReason: z
    .string()
    .trim()
    .min(1)
    .max(500)
    .default(restartReason)
    .describe(
      'Reason given to runs that are paused because their holder was gone when the store was opened; the details of the loss follow it.',
    ),
})

/** Which triggers run recovery, and how often. */
export interface RecoveryOptions extends Readonly<z.output<typeof recovery>> {}

const retention = z.strictObject({
  itemsMs: whole(0)
    .default(7 * dayMs)
    .describe(
      'How long to keep finished items and messages, and the items of completed runs, ms; removed up to two hours later. 0 = for ever.',
    ),
  eventsMs: whole(0)
    .default(90 * dayMs)
    .describe('How long to keep events and completed runs, ms; removed up to two hours later. 0 = for ever.'),
  answersMs: whole(0)
    .default(dayMs)
    .describe(
      'How long to keep answers under idempotency keys, ms; removed up to two hours later. 0 = for ever.',
    ),
  eventsExport: z
    .string()
    .optional()
    .describe('Append events to this file as JSON lines before they are removed.'),
  everyMs: whole(1_000).default(60_000).describe('How often to look for what can be removed, ms.'),
})
/** How long finished things are kept, and where removed events go. */
export interface RetentionOptions extends Readonly<z.output<typeof retention>> {}

const quotas = z.strictObject({
  reservations: whole(1, 1_000)
    .default(defaultQuotas.reservations)
    .describe('Path reservations that one agent may hold at once.'),
  lockWaits: whole(1, 10_000)
    .default(defaultQuotas.lockWaits)
    .describe('Lock lines that one agent may wait in at once.'),
})

export const maxBusyTimeoutMs = 600_000

export const openOptions = z.strictObject({
  agent: name.optional().describe('Name of this participant; default HOLDFAST_AGENT, else type-host-pid.'),
  namespace: name.default('default').describe("Namespaces cannot see each other's data."),
  mustExist: z.boolean().default(false).describe('Refuse to create the store: NOT_FOUND if there is none.'),
  durability: z
    .enum(['full', 'normal'])
    .default('full')
    .describe('full: every acknowledged change is on disk. normal: a power failure may lose the last ones.'),
  busyTimeoutMs: whole(0, maxBusyTimeoutMs)
    .default(5_000)
    .describe(
      'How long one process may block all writers before a call fails with BUSY, ms. While others write one after the other, a call waits for up to `patienceMs` if that is longer.',
    ),
  patienceMs: whole(0, 600_000)
    .optional()
    .describe(
      'How long a call waits for an unavailable store, ms; default 35 s on PostgreSQL, 20 s elsewhere. The `waitMs` of a call takes precedence.',
    ),
  leaseMs: whole(0, 86_400_000)
    .optional()
    .describe(
      'Length of the leases that this process renews, ms, unless the call or the queue sets one; at least 500, default 60 s on PostgreSQL, 30 s elsewhere. Leases that nobody renews have their own defaults.',
    ),
  manualGraceMs: whole(0, 86_400_000)
    .optional()
    .describe(
      'How long an expired lease that nobody renews is left alone, ms; default 0. Saved in the store for everyone who opens it.',
    ),
  wedgedAfterMs: whole(1_000, 86_400_000)
    .default(300_000)
    .describe('A main loop that is silent for this long loses its leases, ms.'),
  background: z
    .boolean()
    .default(true)
    .describe('Renew leases and recover in the background. Without it, claims are manual leases.'),
  recovery: z
    .union([z.boolean(), recovery.partial()])
    .default({})
    .describe('Which triggers run recovery; false turns all of them off.'),
  redelivery: z
    .boolean()
    .default(true)
    .describe(
      'Send, retry and escalate messages in the background; needs `background`. Without it only inboxes are reached until processRetries() is called.',
    ),
  adapters: z
    .record(
      name.refine((given) => given !== inboxAdapter, { error: 'the inbox cannot be replaced' }),
      z.custom<Adapter>(isAdapter, { error: 'is not an adapter' }),
    )
    .default({})
    .describe('How this process delivers messages besides the inbox, by name.'),
  retention: retention.partial().default({}).describe('How long finished things are kept.'),
  quotas: quotas.partial().default({}).describe('How much of a shared resource one agent may take.'),
  logger: z
    .custom<Logger | false>(
      (value) => value === false || (typeof value === 'object' && value !== null && 'warn' in value),
    )
    .optional()
    .describe('Where log lines go; default warnings to stderr, false for silence.'),
  environment: z
    .custom<Environment>((value) => typeof value === 'object' && value !== null && 'monotonic' in value)
    .optional()
    .describe('Clock, randomness and timers, for tests.'),
})

/** Options of `open`. */
export interface OpenOptions extends Readonly<z.input<typeof openOptions>> {}

export interface Settings
  extends Omit<z.output<typeof openOptions>, 'recovery' | 'retention' | 'quotas' | 'leaseMs' | 'patienceMs'> {
  readonly leaseMs: number
  readonly patienceMs: number
  readonly recovery: RecoveryOptions
  readonly retention: RetentionOptions
  readonly quotas: Quotas
}

/** A typical failover takes up to half a minute: a lease must outlast it, and a call must wait for it to end. */
const times = Object.freeze({
  sqlite: { leaseMs: 30_000, patienceMs: 20_000 },
  postgres: { leaseMs: 60_000, patienceMs: 35_000 },
})

const noRecovery: RecoveryOptions = Object.freeze({
  onOpen: false,
  onClaim: false,
  onWait: false,
  everyMs: 0,
  probeEveryMs: 0,
  pauseReason: restartReason,
})

/** Fills in defaults. Refuses unknown options and suggests the nearest known name. */
export function parseOptions(options: unknown, engine: keyof typeof times): Settings {
  const checked = check(openOptions, options ?? {})
  if (!checked.isSound) throw invalidOption(checked.issues[0])
  const { recovery: triggers, retention: kept, quotas: allowed, ...rest } = checked.value
  const { leaseMs = times[engine].leaseMs, patienceMs = times[engine].patienceMs } = rest
  if (rest.background) assertRenewable(leaseMs)
  return {
    ...rest,
    leaseMs,
    patienceMs,
    recovery: triggers === false ? noRecovery : recovery.parse(triggers === true ? {} : triggers),
    retention: withWholePath(retention.parse(kept)),
    quotas: quotas.parse(allowed),
  }
}

/** Resolved against the current folder now, because the process may change it later. */
function withWholePath(options: RetentionOptions): RetentionOptions {
  const { eventsExport } = options
  return eventsExport === undefined ? options : { ...options, eventsExport: resolve(eventsExport) }
}

function invalidOption({ path, message, next, facts }: Issue): InvalidError {
  return new InvalidError({
    what: `open: ${path === '' ? message : `option ${path}: ${message}`}`,
    next: next ?? 'correct it and open again',
    facts: { ...facts, ...(path === '' ? {} : { option: path }) },
  })
}
