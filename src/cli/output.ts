/** What the command line says: data on stdout, talk on stderr, one JSON object with `--json`. */
import Table from 'cli-table3'
import colors from 'picocolors'
import { HoldfastError } from '../errors.ts'

const schemaVersion = 1

/** Terminal control characters in stored text would let one agent draw on another's screen. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, '\u00b7')
}

export function printJson(value: object): void {
  process.stdout.write(`${JSON.stringify({ schemaVersion, ...value })}\n`)
}

export function printLine(text: string): void {
  process.stdout.write(`${text}\n`)
}

export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const table = new Table({
    head: head.map((each) => colors.bold(each)),
    style: { head: [], border: colors.isColorSupported ? ['dim'] : [], compact: true },
  })
  for (const row of rows) table.push(row.map(printable))
  printLine(table.toString())
}

/** What happened and what to do next; the exit code is that of the error's code. */
export function printError(error: unknown, json: boolean): number {
  const known =
    error instanceof HoldfastError
      ? error
      : new HoldfastError('INTERNAL', { what: String(error), next: 'please report this', cause: error })
  if (json) printJson({ error: known.toJSON() })
  else
    process.stderr.write(
      `${colors.red('error')} ${printable(known.what)}\n${colors.dim('next ')} ${printable(known.next)}\n`,
    )
  return known.exitCode
}
