/**
 * A fence across HTTP. The client sends the token of its lease with each request; the server lets a request act
 * only if no later holder's request has come before it.
 *
 * Not guaranteed: more than your `raise` stores. If it keeps tokens in memory, a restart forgets them all. Effects are
 * ordered within one process only; if several processes serve one resource, raise the token in the transaction of
 * the effect instead (sql.ts). A request that never ends blocks the others of its resource.
 */
import { errorCodes } from '../error-codes.ts'
import type { HoldfastError, InvalidError } from '../errors.ts'
import { type FencedResource, type Grant, isResource, isToken, lateError, readGrant } from './grant.ts'
import { assertOptions, invalid, isObject } from './input.ts'

const resourceHeader = 'holdfast-resource'
const tokenHeader = 'holdfast-token'

/** Headers of a request made under a lease. */
export function fenceHeaders(grant: Grant): Record<typeof resourceHeader | typeof tokenHeader, string> {
  const { resource, token } = readGrant(grant)
  // Names may contain any letter; a header may not.
  return { [resourceHeader]: encodeURIComponent(resource), [tokenHeader]: String(token) }
}

export interface HttpFenceOptions {
  /**
   * Sets the stored token of the resource to the larger of the two and returns it, in one atomic step (compare and set)
   * that is durable before it returns.
   */
  readonly raise: (resource: string, token: number) => number | PromiseLike<number>
}

/** From node:http, or from fetch. */
export type RequestHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>

export type Admission<Result> =
  | { readonly outcome: 'admitted'; readonly result: Result }
  | {
      readonly outcome: 'refused'
      /** 409 for a late holder, 400 for a request without usable headers. */
      readonly status: number
      readonly headers: { readonly 'content-type': 'application/problem+json' }
      /** Problem details (RFC 9457) with code, facts and the next step, as JSON. */
      readonly body: string
    }

export interface HttpFence {
  /**
   * Runs the effect of a request after the earlier ones of its resource, or returns the response to send instead.
   * Errors of the effect are passed on to the caller.
   */
  admit<Result>(
    headers: RequestHeaders,
    act: (grant: FencedResource) => Result | PromiseLike<Result>,
  ): Promise<Admission<Result>>
}

export function createHttpFence(options: HttpFenceOptions): HttpFence {
  assertOptions(options, ['raise'])
  const { raise } = options
  if (typeof raise !== 'function') {
    throw invalid('raise is not a function', 'give one that keeps the larger token and returns it')
  }
  const turns = new Turns()
  return {
    async admit(headers, act) {
      const grant = readHeaders(headers)
      if (grant === null) return refuse(unreadable())
      return turns.take(grant.resource, async () => {
        const current = await raise(grant.resource, grant.token)
        assertRaised(current, grant.token)
        if (current > grant.token) return refuse(lateError(grant, current))
        return { outcome: 'admitted', result: await act(grant) } as const
      })
    },
  }
}

/** Runs one at a time per name, in the order of the calls. */
class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  async take<Result>(name: string, act: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(name) ?? Promise.resolve()
    // A failure of the previous one is reported to its own caller.
    const turn = before.then(act, act)
    this.#last.set(name, turn)
    try {
      return await turn
    } finally {
      if (this.#last.get(name) === turn) this.#last.delete(name)
    }
  }
}

function readHeaders(headers: RequestHeaders): FencedResource | null {
  const digits = headerOf(headers, tokenHeader)
  const token = digits !== null && /^\d+$/.test(digits) ? Number(digits) : null
  const resource = decode(headerOf(headers, resourceHeader))
  return isResource(resource) && isToken(token) ? { resource, token } : null
}

function headerOf(headers: RequestHeaders, name: string): string | null {
  if (!isObject(headers)) throw invalid('the headers are not an object', 'give the headers of the request')
  const value =
    typeof headers.get === 'function' ? headers.get(name) : (headers as Record<string, unknown>)[name]
  return typeof value === 'string' ? value : null
}

function decode(text: string | null): string | null {
  try {
    return text === null ? null : decodeURIComponent(text)
  } catch {
    return null
  }
}

/** An answer of the wrong type must not admit a request. */
function assertRaised(current: number, token: number): void {
  if (isToken(current) && current >= token) return
  throw invalid(
    `raise() returned ${String(current)} (${typeof current}) for the token ${token}`,
    'make it return the larger of the kept token and the given one, as a number',
    { token },
  )
}

function unreadable(): InvalidError {
  return invalid(
    `the request names no lease in ${resourceHeader} and ${tokenHeader}`,
    'send the headers that fenceHeaders(lease) makes',
  )
}

function refuse(error: HoldfastError) {
  const { status, code, what, next, facts } = { ...error.toJSON(), status: errorCodes[error.code].http }
  return {
    outcome: 'refused',
    status,
    headers: { 'content-type': 'application/problem+json' },
    body: JSON.stringify({ title: what, status, detail: error.message, code, next, facts }),
  } as const
}
