/** What a fence compares: the thing that was leased, and the token of the grant. */
import { LeaseLostError } from '../errors.ts'
import { systemEnvironment } from '../host/system.ts'
import { invalid, isObject } from './input.ts'

/**
 * A lease as Holdfast hands it out, or the same facts given by hand. Tokens are comparable only within one resource:
 * name the thing that was leased, not the thing that is written to.
 */
export type Grant =
  | { readonly kind: string; readonly id: string; readonly token: number }
  | { readonly resource: string; readonly token: number }

export interface FencedResource {
  readonly resource: string
  readonly token: number
}

const maxResourceLength = 512

export function readGrant(grant: Grant): FencedResource {
  const resource = resourceOf(grant)
  if (!isResource(resource)) {
    throw invalid(
      'the grant names no usable resource',
      `give a lease, or { resource, token } with a resource of 1 to ${maxResourceLength} printable characters`,
      { resource },
    )
  }
  const { token } = grant
  if (!isToken(token)) {
    throw invalid(
      `the grant of ${resource} has no usable token`,
      'give the token of your lease as it is: a positive whole number, not more than ten years ahead of the clock in microseconds',
      { resource, token },
    )
  }
  return { resource, token }
}

function resourceOf(grant: unknown): unknown {
  if (!isObject(grant)) return undefined
  if ('resource' in grant) return grant.resource
  return isResource(grant.kind) && isResource(grant.id) ? `${grant.kind}:${grant.id}` : undefined
}

export function isResource(value: unknown): value is string {
  return typeof value === 'string' && value.length <= maxResourceLength && /^[^\p{Cc}\p{Cs}]+$/u.test(value)
}

/**
 * Tokens follow the clock in microseconds. One from the far future is nonsense, and a fence that accepted it would
 * refuse every later holder.
 */
const maxAheadMs = 10 * 365 * 24 * 60 * 60 * 1000

export function isToken(value: unknown): value is number {
  if (!Number.isSafeInteger(value)) return false
  const token = value as number
  return token > 0 && token <= (systemEnvironment.now() + maxAheadMs) * 1000
}

/** An equal token passes: the same holder may act again. */
export function assertNotLate({ resource, token }: FencedResource, currentToken: number): void {
  if (token < currentToken) throw lateError({ resource, token }, currentToken)
}

export function lateError({ resource, token }: FencedResource, currentToken: number): LeaseLostError {
  return new LeaseLostError({
    subject: resource,
    token,
    currentToken,
    reason: 'a later holder has passed this fence',
    holder: null,
  })
}
