/**
 * Rows of text in columns, aligned by their width on a terminal. Written by hand, because a package took a tenth of the
 * time of a whole command (docs/adr/0011).
 */

const gap = '  '
/** A narrower column says nothing useful. */
const columnMin = 8

/**
 * If lines have a maximum length, the widest column shrinks so that a row stays on one line. The first column shrinks
 * last: it names the row, and half an id is useless.
 */
export function tableLines(rows: readonly (readonly string[])[], maxLine: number | null): string[] {
  const count = Math.max(...rows.map((row) => row.length))
  const widths = Array.from({ length: count }, (_, column) =>
    Math.max(...rows.map((row) => textWidth(row[column] ?? ''))),
  )
  const rooms = maxLine === null ? widths : shrink(widths, maxLine)
  return rows.map((row) =>
    row
      .map((text, column) => fitted(text, rooms[column] as number))
      .join(gap)
      .trimEnd(),
  )
}

function shrink(widths: readonly number[], maxLine: number): number[] {
  const rooms = [...widths]
  let excess = rooms.reduce((sum, width) => sum + width, gap.length * (rooms.length - 1)) - maxLine
  while (excess > 0) {
    const others = rooms.slice(1)
    const widestOther = 1 + others.indexOf(Math.max(...others))
    const widest = (rooms[widestOther] ?? 0) > columnMin ? widestOther : 0
    if ((rooms[widest] as number) <= columnMin) break
    rooms[widest] = (rooms[widest] as number) - 1
    excess -= 1
  }
  return rooms
}

/** Pads the text to exactly this width, or cuts it and marks the cut. */
function fitted(text: string, room: number): string {
  const width = textWidth(text)
  if (width <= room) return text + ' '.repeat(room - width)
  let shown = ''
  let taken = 1
  for (const character of text) {
    const more = characterWidth(character)
    if (taken + more > room) break
    shown += character
    taken += more
  }
  return `${shown}…${' '.repeat(room - taken)}`
}

const plain = /^[ -~]*$/

function textWidth(text: string): number {
  // Fast path: nearly all text is plain ASCII.
  if (plain.test(text)) return text.length
  let width = 0
  for (const character of text) width += characterWidth(character)
  return width
}

/** Combining marks, and invisible characters. */
const noWidth = /^[\p{Mn}\p{Me}\p{Cf}]$/u
/** East Asian characters, and emoji. */
const doubleWidth =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}\p{Emoji_Presentation}]$/u

function characterWidth(character: string): number {
  if (plain.test(character)) return 1
  if (noWidth.test(character)) return 0
  return doubleWidth.test(character) ? 2 : 1
}
