/** Words as typed at a shell, and what they mean there. */

/** Quotes one word of a command for typing, unless a shell would read it unchanged. */
export function quotedWord(text: string): string {
  return /^[\w./:@+,-][\w./:@+=,#~-]*$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Removes the quotes and backslashes that bash would remove; an unclosed quote ends with the word. */
export function unquoted(word: string): string {
  return word.replace(
    /'([^']*)'?|"((?:\\.|[^"\\])*)"?|\\(.)/gs,
    (_, single?: string, double?: string, escaped?: string) =>
      single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? (escaped as string),
  )
}
