/**
 * Terminal output. Text from people and programs is escaped here, on the way out, and nowhere else. A verb returns
 * plain strings, and each becomes one line, whatever it contains. Only a `Drawing` can contain line breaks and colours.
 * Code that forgets this prints something ugly, never something dangerous.
 */
import { printable, printableLines } from '../domain/text.ts'

/** Printed as it is. Made by the functions below and by the tables, pairs and colours of a view. */
export class Drawing {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  /** Interpolated into a plain string, it is ordinary text and is escaped with the rest. */
  toString(): string {
    return this.text
  }
}

export type Drawn = string | Drawing

export function drawn(part: Drawn): string {
  return part instanceof Drawing ? part.text : printable(part)
}

/** A line of several parts, some of them coloured. Plain strings are escaped; the template's own text is not. */
export function line(texts: TemplateStringsArray, ...parts: readonly (Drawn | number)[]): Drawing {
  const drawnParts = parts.map((part) => (typeof part === 'number' ? String(part) : drawn(part)))
  return new Drawing(texts.map((text, index) => `${text}${drawnParts[index] ?? ''}`).join(''))
}

/** Joins the parts with line breaks. */
export function lines(parts: readonly Drawn[]): Drawing {
  return new Drawing(parts.map(drawn).join('\n'))
}

/** A text of several lines. Its line breaks and tabs stay. Indented, none of its lines can pass for one of ours. */
export function textLines(text: string, indent = ''): Drawing {
  return new Drawing(printableLines(text.replaceAll('\r\n', '\n')).replace(/^/gm, indent))
}
