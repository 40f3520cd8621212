/** The only way to print an answer: as a drawing for people, or as a line of JSON for programs. */
import { jsonLine } from '../domain/text.ts'
import { type Drawn, drawn } from './drawing.ts'
import type { Io } from './io.ts'

const schemaVersion = 1

/** Data. */
export function printText(io: Pick<Io, 'out'>, text: Drawn): void {
  io.out(`${drawn(text)}\n`)
}

/** Talk. */
export function printTalk(io: Pick<Io, 'err'>, text: Drawn): void {
  io.err(`${drawn(text)}\n`)
}

export function printJson(io: Pick<Io, 'out'>, record: object): void {
  io.out(`${jsonLine({ schemaVersion, ...record })}\n`)
}

/** For commands whose stdout belongs to another program. */
export function printJsonTalk(io: Pick<Io, 'err'>, record: object): void {
  printJson({ out: io.err }, record)
}
