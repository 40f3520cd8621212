/** What `holdfast run` is asked to hold, as read from its options. */
import { InvalidError } from '../errors.ts'
import { given } from '../runtime/session/input.ts'
import { kebab } from './kebab.ts'
import type { RunRequest } from './run-subject.ts'
import type { Call } from './verb.ts'
import { waitOptionMs } from './verbs/wait.ts'

/** Between TERM and KILL. */
export const graceDefaultMs = 5_000
const maxSlots = 1000

type RunOptions = Partial<
  Pick<RunRequest, 'lock' | 'queue' | 'task' | 'nextTask' | 'slots' | 'reason' | 'review'>
> & {
  readonly lease?: number
}

export function readRequest(call: Call): Omit<RunRequest, 'signal'> {
  const { lock, queue, task, nextTask, lease, slots, reason, review } = call.options as RunOptions
  assertOfUse(call)
  const named = [lock, queue, task, nextTask].filter((each) => each !== undefined)
  if (named.length !== 1) {
    throw new InvalidError({
      what: named.length === 0 ? 'no lock, queue or task was given' : 'only one thing can be held',
      next: 'give one of --lock, --queue, --task and --next-task',
    })
  }
  if (slots !== undefined && (slots < 1 || slots > maxSlots)) {
    throw new InvalidError({
      what: `--slots: "${slots}" is not a number of slots`,
      next: `give 1 to ${maxSlots}`,
    })
  }
  const wanted = given({ lock, queue, task, nextTask, slots, reason, leaseMs: lease, review })
  return { ...wanted, waitMs: waitOptionMs(call) }
}

/** Options that have an effect only together with one of these. */
const companions: Readonly<Record<string, readonly string[]>> = {
  slots: ['lock'],
  reason: ['lock'],
  review: ['task', 'nextTask'],
}

/** Refuses options that would have no effect, because the user relies on them. */
function assertOfUse({ options, idempotencyKey }: Call): void {
  if (idempotencyKey !== undefined) {
    throw new InvalidError({
      what: '--idempotency-key has no effect here: a command is run each time',
      next: 'leave it out',
    })
  }
  for (const [option, others] of Object.entries(companions)) {
    if (options[option] === undefined || others.some((other) => options[other] !== undefined)) continue
    throw new InvalidError({
      what: `--${option} has no effect here`,
      next: `leave it out, or give it with ${others.map((other) => `--${kebab(other)}`).join(' or ')}`,
    })
  }
}

export function graceMs({ options }: Call): number {
  const { killAfter = graceDefaultMs } = options as { killAfter?: number }
  return killAfter
}
