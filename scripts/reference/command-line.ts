/** docs/reference/cli.md, generated from the commands themselves. */

import { configKeys } from '../../src/cli/config-file.ts'
import { exitCodes } from '../../src/cli/exit.ts'
import { globalOptions } from '../../src/cli/program.ts'
import { type CommandFacts, listCommands } from '../../src/cli/reference.ts'
import { variables } from '../../src/cli/settings.ts'
import { code, heading, table } from './markdown.ts'

/** The whole page. */
export async function commandLinePage(): Promise<string> {
  const commands = await listCommands()
  const nouns = [...new Set(commands.map(({ name }) => nounOf(name)))]
  return [
    ...heading('Command line', 'the commands'),
    '```text',
    'holdfast [options] <command>',
    '```',
    '',
    'Data goes to stdout, everything else to stderr. `--json` prints one object with `schemaVersion`; streams print one per line. Give durations with a unit (`500ms`, `30s`, `1h30m`; only `0` needs none) and times in ISO 8601 (`2026-11-16T08:00:00Z`), or as `+10m` from now. In JSON both are ms.',
    '',
    '## Global options',
    '',
    ...table(
      ['option', 'meaning'],
      globalOptions.map(([flags, meaning]) => [code(flags), meaning]),
    ),
    '',
    '## Settings',
    '',
    'An option overrides a variable, and a variable overrides `.holdfast/config.toml`.',
    '',
    ...table(
      ['in config.toml', 'variable'],
      configKeys.map((name) => [code(name), code(variables[name])]),
    ),
    '',
    '## Exit codes',
    '',
    ...table(
      ['code', 'meaning'],
      exitCodes.map(([number, meaning]) => [String(number), meaning]),
    ),
    '',
    '## Commands',
    '',
    ...table(
      ['command', 'what it does', 'operation'],
      commands.map(({ name, summary, operation }) => [
        `[${code(name)}](#${name.replaceAll(' ', '-')})`,
        summary,
        operation === null ? '' : code(operation),
      ]),
    ),
    ...nouns.flatMap((noun) => commands.filter(({ name }) => nounOf(name) === noun).flatMap(section)),
    '',
  ].join('\n')
}

function nounOf(name: string): string {
  return name.split(' ')[0] ?? name
}

function section(command: CommandFacts): string[] {
  const words = command.arguments.map(({ name, isRequired, isVariadic }) => {
    const word = `${name}${isVariadic ? '...' : ''}`
    return isRequired ? `<${word}>` : `[${word}]`
  })
  const rows = [
    ...command.arguments.map(({ name, description }) => [code(name), description]),
    ...command.options.map(({ flags, description, isRequired }) => [
      code(flags),
      isRequired ? `${description} Required.` : description,
    ]),
  ]
  return [
    '',
    `### ${command.name}`,
    '',
    command.summary,
    '',
    '```text',
    ['holdfast', command.name, ...words].join(' '),
    '```',
    ...(rows.length > 0 ? ['', ...table(['argument', 'meaning'], rows)] : []),
    ...(command.help === '' ? [] : ['', ...helpLines(command.help)]),
  ]
}

/** Examples are indented, prose is not. */
function helpLines(help: string): string[] {
  const lines = help.split('\n')
  const prose = lines.filter((line) => !line.startsWith('  '))
  const examples = lines.filter((line) => line.startsWith('  ')).map((line) => line.slice(2))
  return [
    ...prose,
    ...(examples.length > 0 ? [...(prose.length > 0 ? [''] : []), '```sh', ...examples, '```'] : []),
  ]
}
