/** Guesses what was meant by an unknown command or option. */
import type { Command, CommanderError } from 'commander'
import { nearestName } from '../domain/name.ts'

/** Groups of words that other tools use for the same thing. */
const sameWords: readonly (readonly string[])[] = [
  ['show', 'get', 'view', 'status', 'describe', 'info'],
  ['list', 'ls'],
  ['remove', 'delete', 'rm', 'del'],
  ['done', 'complete', 'finish'],
  ['next', 'claim', 'take', 'pop', 'dequeue'],
  ['add', 'create', 'new', 'push', 'enqueue'],
  ['set', 'put', 'save'],
  ['ack', 'acknowledge', 'accept'],
  ['acquire', 'lock'],
  ['release', 'unlock'],
  ['follow', 'tail'],
]

/** The nearest existing command or option, as it would be typed; null if nothing is close. */
export function suggestionFor(
  { code, message }: CommanderError,
  program: Command,
  args: readonly string[],
): string | null {
  const unknown = /'([^']+)'/.exec(message)?.[1] ?? ''
  const command = commandIn(program, args)
  if (code === 'commander.unknownOption') {
    const known = [...command.options, ...program.options].flatMap(({ long }) => long?.slice(2) ?? [])
    const nearest = nearestName(unknown.replace(/^-+/, '').replace(/=.*/, ''), known)
    return nearest === null ? null : `--${nearest}`
  }
  if (code !== 'commander.unknownCommand') return null
  const known = command
    .createHelp()
    .visibleCommands(command)
    .map((each) => each.name())
  return synonymOf(unknown, known) ?? nearestName(unknown, known)
}

function synonymOf(word: string, known: readonly string[]): string | null {
  const words = sameWords.find((each) => each.includes(word)) ?? []
  return words.find((each) => known.includes(each)) ?? null
}

/** The deepest command that the words name. */
function commandIn(program: Command, args: readonly string[]): Command {
  let command = program
  for (const word of args) {
    const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word))
    if (next) command = next
  }
  return command
}
