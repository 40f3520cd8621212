/** Words as they are typed at a shell, and what they mean there. */

/** One word of a command to type, whatever it contains: in quotes unless a shell would read it as it is. */
export function quotedWord(text: string): string {
  return /^[\w./:@+,-][\w./:@+=,#~-]*$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Without the quotes and backslashes that bash would take away; a quote that is still open ends with the word. */
export function unquoted(word: string): string {
  return word.replace(
    /'([^']*)'?|"((?:\\.|[^"\\])*)"?|\\(.)/gs,
    (_, single?: string, double?: string, escaped?: string) =>
      single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? (escaped as string),
  )
}
