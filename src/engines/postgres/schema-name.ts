/** The schema a store has to itself. Statements are written for one called holdfast. */

/** Puts a schema in the place of `holdfast.`; what stands in quotes, such as the name of a setting, stays. */
export function inSchema(text: string, schema: string): string {
  if (schema === 'holdfast') return text
  const name = quoted(schema)
  return text.replace(/(?<!['\w])holdfast\./g, () => `${name}.`)
}

/** A name as an identifier, whatever is in it. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
