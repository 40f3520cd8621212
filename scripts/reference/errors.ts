/** docs/reference/errors.md */
import { errorCodes } from '../../src/error-codes.ts'
import { code, heading, table } from './markdown.ts'

export function errorsPage(): string {
  const kinds = Object.entries(errorCodes)
  return [
    ...heading('Errors', '`src/error-codes.ts`'),
    'Everything that Holdfast throws is a `HoldfastError`. Decide by its `code`; the message may change. `what` says what happened, `next` what to do, and `facts` has the details. Normal outcomes, such as a lock that is held, are returned and not thrown.',
    '',
    ...table(
      ['code', 'exit', 'HTTP', 'retry', 'cause'],
      kinds.map(([name, { exit, http, retryable, cause }]) => [
        `[${code(name)}](#${name.toLowerCase()})`,
        String(exit),
        String(http),
        retryable ? 'yes' : 'no',
        cause,
      ]),
    ),
    '',
    '*exit*: the exit status of the command. *HTTP*: the status that an HTTP interface should use. *retry*: the same call may succeed later, unchanged (`error.retryable`).',
    ...kinds.flatMap(([name, { cause, remedy, facts }]) => [
      '',
      `## ${name}`,
      '',
      cause,
      '',
      `**What to do:** ${remedy}`,
      ...factRows(facts),
    ]),
    '',
  ].join('\n')
}

function factRows(facts: Readonly<Record<string, string>>): string[] {
  const rows = Object.entries(facts).map(([name, meaning]) => [code(name), meaning])
  return rows.length === 0 ? [] : ['', ...table(['fact', 'meaning'], rows)]
}
