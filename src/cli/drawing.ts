/**
 * What is drawn on a terminal. The words of people and programs are made harmless here, on the way out, and nowhere
 * else: a verb hands over plain strings, and each becomes one line, whatever it contains. Only a `Drawing` has line
 * breaks and colours of its own. Whoever forgets that draws something ugly, never something dangerous.
 */
import { printable, printableLines } from '../domain/text.ts'

/** Drawn as it is. Made by the writers below and by the tables, pairs and colours of a view. */
export class Drawing {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  /** Inside a plain string it is text like any other, and is escaped with it. */
  toString(): string {
    return this.text
  }
}

export type Drawn = string | Drawing

export function drawn(part: Drawn): string {
  return part instanceof Drawing ? part.text : printable(part)
}

/** A line of several parts, of which some have colours: only what stands in the source is taken as it is. */
export function line(texts: TemplateStringsArray, ...parts: readonly (Drawn | number)[]): Drawing {
  const drawnParts = parts.map((part) => (typeof part === 'number' ? String(part) : drawn(part)))
  return new Drawing(texts.map((text, index) => `${text}${drawnParts[index] ?? ''}`).join(''))
}

/** One below the other. */
export function lines(parts: readonly Drawn[]): Drawing {
  return new Drawing(parts.map(drawn).join('\n'))
}

/** A text of several lines; its own line breaks and tabs stay. Indented, none of them passes for a line of ours. */
export function textLines(text: string, indent = ''): Drawing {
  return new Drawing(printableLines(text.replaceAll('\r\n', '\n')).replace(/^/gm, indent))
}
