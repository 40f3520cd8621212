/** The schema that belongs to a store alone. Statements are written for one called holdfast. */

/** Replaces `holdfast.` with a schema; what is in quotes, such as the name of a setting, stays. */
export function inSchema(text: string, schema: string): string {
  if (schema === 'holdfast') return text
  const name = quoted(schema)
  return text.replace(/(?<!['\w])holdfast\./g, () => `${name}.`)
}

/** Quotes a name as an identifier, whatever it contains. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
