/** The few forms that all reference pages share. */

/** The first lines of every page. */
export function heading(title: string, source: string): string[] {
  return [`# ${title}`, '', `*Made from ${source} by \`node scripts/generate.mjs\`; do not edit.*`, '']
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)]
}

export function code(text: string): string {
  return `\`${text}\``
}
