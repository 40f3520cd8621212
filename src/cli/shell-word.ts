/** Words as they are typed at a shell, and what they mean there. */

/** Without the quotes and backslashes that bash would take away; a quote that is still open ends with the word. */
export function unquoted(word: string): string {
  return word.replace(
    /'([^']*)'?|"((?:\\.|[^"\\])*)"?|\\(.)/gs,
    (_, single?: string, double?: string, escaped?: string) =>
      single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? escaped ?? '',
  )
}
