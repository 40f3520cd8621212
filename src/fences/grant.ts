/** What a fence compares: the thing that was leased, and the token of the grant. */
import { InvalidError, LeaseLostError } from '../errors.ts'

/**
 * A lease as Holdfast hands it out, or the same told by hand. Tokens are comparable within one resource only:
 * name the thing that was leased, not the thing that is written to.
 */
export type Grant =
  | { readonly kind: 'item' | 'lock'; readonly id: string; readonly token: number }
  | { readonly resource: string; readonly token: number }

export interface FencedResource {
  readonly resource: string
  readonly token: number
}

const resourceLengthMax = 512

export function readGrant(grant: Grant): FencedResource {
  const resource = 'resource' in grant ? grant.resource : `${grant.kind}:${grant.id}`
  if (!isResource(resource)) {
    throw new InvalidError({
      what: `${JSON.stringify(resource)} is not a usable resource`,
      next: `name the leased thing with 1 to ${resourceLengthMax} characters, none of them a control character`,
      facts: { resource },
    })
  }
  if (!isToken(grant.token)) {
    throw new InvalidError({
      what: `${JSON.stringify(grant.token)} is not a token`,
      next: 'give the token of your grant as it is, a positive whole number',
      facts: { resource, token: grant.token },
    })
  }
  return { resource, token: grant.token }
}

export function isResource(value: unknown): value is string {
  return typeof value === 'string' && value.length <= resourceLengthMax && /^[^\p{Cc}\p{Cs}]+$/u.test(value)
}

export function isToken(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0
}

/** Equal passes: the same holder may act again. */
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
