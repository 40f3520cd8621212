/** Reads what another program wrote, without changing it: text, times, and refusals of what is not as expected. */

import { closeSync, openSync, readSync } from 'node:fs'
import type { Json } from '../domain/json.ts'
import { JsonFault, maxDepth } from '../domain/json.ts'
import { depthOfJson, parseJsonText } from '../domain/json-text.ts'
import { decodeText } from '../domain/text.ts'
import { type HoldfastError, InvalidError, NotFoundError } from '../errors.ts'
import type { Issue } from '../issue.ts'

/** A path, or the text itself. A string that begins with a brace is text. */
export type TextSource = string | { readonly text: string }

export function textOf(source: TextSource, what: string): string {
  if (typeof source !== 'string') return withoutMark(source.text)
  if (source.trimStart().startsWith('{')) return source
  const text = decodeText(bytesOf(source, what))
  if (text === null) throw damaged(what, 'it is not UTF-8')
  return withoutMark(text)
}

/** More than any of these programs would write. A limit is needed because a device has no end. */
const maxFileBytes = 128 * 1024 * 1024

/** Reads up to one byte more, to tell that there is more. Not by file size, which pipes do not report. */
function bytesOf(path: string, what: string): Uint8Array {
  const pieces: Buffer[] = []
  let left = maxFileBytes + 1
  try {
    const file = openSync(path, 'r')
    try {
      while (left > 0) {
        const piece = Buffer.allocUnsafe(Math.min(left, pieceBytes))
        const count = readSync(file, piece)
        if (count === 0) break
        pieces.push(piece.subarray(0, count))
        left -= count
      }
    } finally {
      closeSync(file)
    }
  } catch (cause) {
    throw unreadable(path, what, cause)
  }
  if (left > 0) return Buffer.concat(pieces)
  throw damaged(what, `it is larger than ${maxFileBytes / 1024 / 1024} MiB`)
}

const pieceBytes = 1024 * 1024

/** Some editors put a byte order mark before the first character. */
function withoutMark(text: string): string {
  return text.startsWith('\uFEFF') ? text.slice(1) : text
}

export function unreadable(path: string, what: string, cause?: unknown): HoldfastError {
  return new NotFoundError({
    what: `${path} cannot be read`,
    next: `give the path of ${what}`,
    facts: { path },
    cause,
  })
}

/** Refuses a whole file that is not what it should be. */
export function damaged(what: string, why: string, cause?: unknown): HoldfastError {
  return new InvalidError({
    what: `${what} cannot be read: ${why}`,
    next: 'nothing was imported and the file was left as it is; repair or restore it',
    facts: { why },
    cause,
  })
}

export function parseJson(text: string, what: string): unknown {
  try {
    return parseBounded(text)
  } catch (cause) {
    throw damaged(what, whyNoJson(cause), cause)
  }
}

/**
 * Refuses text that is nested deeper than a value here may be. Checked before parsing, which would exhaust the stack.
 */
export function parseBounded(text: string): Json {
  if (depthOfJson(text) <= maxFileDepth) return parseJsonText(text)
  throw new JsonFault([], `it is nested more than ${maxFileDepth} levels deep`, 'make it flatter')
}

/** The depth of a value, plus what a file may wrap around it. */
const maxFileDepth = maxDepth + 10

/** The first issue of a value, on one line. */
export function firstIssue([{ path, message }]: readonly [Issue, ...Issue[]]): string {
  return path === '' ? message : `${path}: ${message}`
}

/** Why a text cannot be read as JSON. */
export function whyNoJson(error: unknown): string {
  return error instanceof JsonFault ? [...error.path, error.message].join(': ') : 'it is not JSON'
}

const maxTime = 8_640_000_000_000_000

/**
 * Milliseconds since 1970 from an ISO time (local time of this host if it has no zone) or from Unix seconds; null for
 * none.
 */
export function timeOf(value: unknown): number | null {
  const time = typeof value === 'string' && value !== '' ? Date.parse(value) : secondsOf(value) * 1000
  return time >= 0 && time <= maxTime ? Math.floor(time) : null
}

/** In columns that cannot be null, 0 means none. */
function secondsOf(value: unknown): number {
  return typeof value === 'number' && value !== 0 ? value : Number.NaN
}

/** The facts that another program has recorded: neither missing nor empty. */
export function withoutNothing<Fact>(
  facts: Readonly<Record<string, Fact>>,
): Record<string, NonNullable<Fact>> {
  const there = Object.entries(facts).filter(([, fact]) => fact != null && fact !== '')
  return Object.fromEntries(there) as Record<string, NonNullable<Fact>>
}
