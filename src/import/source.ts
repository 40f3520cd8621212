/** What another program wrote, read and never changed: text, times, and the refusal of what is not what it should be. */

import { closeSync, openSync, readSync } from 'node:fs'
import type { Json } from '../domain/item.ts'
import { JsonFault, maxDepth } from '../domain/json.ts'
import { depthOfJson, parseJsonText } from '../domain/json-text.ts'
import { decodeText } from '../domain/text.ts'
import { type HoldfastError, InvalidError, NotFoundError } from '../errors.ts'
import type { Issue } from '../issue.ts'

/** A path, or the text itself; a string that begins with a brace is text. */
export type TextSource = string | { readonly text: string }

export function textOf(source: TextSource, what: string): string {
  if (typeof source !== 'string') return withoutMark(source.text)
  if (source.trimStart().startsWith('{')) return source
  const text = decodeText(bytesOf(source, what))
  if (text === null) throw damaged(what, 'it is not UTF-8')
  return withoutMark(text)
}

/** More than any program of ours would have written; a device has no end at all. */
const maxFileBytes = 128 * 1024 * 1024

function bytesOf(path: string, what: string): Uint8Array {
  const bytes = readUpTo(path, what)
  if (bytes.length <= maxFileBytes) return bytes
  throw damaged(what, `it is larger than ${maxFileBytes / 1024 / 1024} MiB`)
}

/** A byte more than may be, where there are more; pipes do not say how much they have. */
function readUpTo(path: string, what: string): Uint8Array {
  const pieces: Buffer[] = []
  try {
    const file = openSync(path, 'r')
    try {
      for (let left = maxFileBytes + 1; left > 0; ) {
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
  return Buffer.concat(pieces)
}

const pieceBytes = 1024 * 1024

/** Some editors put a mark before the first character. */
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

/** A file that is not what it should be is refused whole. */
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

/** What is nested deeper than a value here may be is refused before it is read: reading it takes the stack. */
export function parseBounded(text: string): Json {
  if (depthOfJson(text) <= maxFileDepth) return parseJsonText(text)
  throw new JsonFault([], `it is nested more than ${maxFileDepth} levels deep`, 'make it flatter')
}

/** A value of ours, and what a file may have around it. */
const maxFileDepth = maxDepth + 10

/** The first thing a schema has against a value, in a line. */
export function firstIssue([{ path, message }]: readonly [Issue, ...Issue[]]): string {
  return path === '' ? message : `${path}: ${message}`
}

/** Why a text cannot be taken as JSON. */
export function whyNoJson(error: unknown): string {
  return error instanceof JsonFault ? [...error.path, error.message].join(': ') : 'it is not JSON'
}

const maxTime = 8_640_000_000_000_000

/** Milliseconds of an ISO time (without a zone: this host's local time) or of Unix seconds; null for none. */
export function timeOf(value: unknown): number | null {
  const time = typeof value === 'string' && value !== '' ? Date.parse(value) : secondsOf(value) * 1000
  return time >= 0 && time <= maxTime ? Math.floor(time) : null
}

/** 0 stands for none in columns that cannot be null. */
function secondsOf(value: unknown): number {
  return typeof value === 'number' && value !== 0 ? value : Number.NaN
}
