/** docs/reference/log.md */
import { logLines } from '../../src/log-lines.ts'
import { code, heading, table } from './markdown.ts'

export function logPage(): string {
  const lines = Object.entries(logLines).sort(([left], [right]) => (left < right ? -1 : 1))
  return [
    ...heading('Log lines', '`src/log-lines.ts`'),
    'By default `warn` and `error` go to stderr and the rest is dropped. Pass `logger` to `open()` to get all of them; it is called with the fields and the name. Names and fields are stable.',
    '',
    ...table(
      ['line', 'level', 'meaning'],
      lines.map(([name, { levels, means }]) => [
        `[${code(name)}](#${name.replaceAll('.', '')})`,
        levels.join(', '),
        means,
      ]),
    ),
    ...lines.flatMap(([name, { levels, means, remedy, fields }]) => [
      '',
      `## ${name}`,
      '',
      `${levels.map(code).join(' or ')}. ${means}`,
      ...(remedy === null ? [] : ['', `**What to do:** ${remedy}`]),
      '',
      ...table(
        ['field', 'meaning'],
        Object.entries(fields).map(([field, meaning]) => [code(field), meaning]),
      ),
    ]),
    '',
  ].join('\n')
}
