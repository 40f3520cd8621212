/** Log lines have stable names and facts. By default, the library logs only warnings and errors. */
import { jsonLine, printable, printableLines } from './domain/text.ts'
import type { LogName, logLines } from './log-lines.ts'

/** The facts of a log line, by name. */
export type LogFacts = Readonly<Record<string, unknown>>
/** The facts that one line may carry. */
export type FactsOf<Name extends LogName> = {
  readonly [Field in keyof (typeof logLines)[Name]['fields']]?: unknown
}
type LevelOf<Name extends LogName> = (typeof logLines)[Name]['levels'][number]

/** How the code below the handles logs. */
export type Log = <Name extends LogName>(level: LevelOf<Name>, name: Name, facts: FactsOf<Name>) => void

/** What `open` accepts as a logger; pino and the console fit. */
export interface Logger {
  /** Detail that only debugging needs; dropped if this is missing. */
  debug?(facts: LogFacts, name: LogName): void
  /** What happened in normal operation; dropped if this is missing. */
  info?(facts: LogFacts, name: LogName): void
  /** Something an operator should look at. */
  warn(facts: LogFacts, name: LogName): void
  /** Something was lost or no longer works. */
  error(facts: LogFacts, name: LogName): void
}

type LogCall = <Name extends LogName>(facts: FactsOf<Name>, name: Name) => void

/** The logger that the code of this package uses: it knows the fields of each line, and never throws. */
export interface CheckedLogger {
  readonly debug: LogCall
  readonly info: LogCall
  readonly warn: LogCall
  readonly error: LogCall
}

/** The default: warnings and errors to stderr. */
export const stderrLogger: Logger = {
  warn: (facts, name) => write('warn', facts, name),
  error: (facts, name) => write('error', facts, name),
}

/** Logs nothing. */
export const silentLogger: Logger = { warn() {}, error() {} }

/** Wraps a program's own logger, which may throw. What it fails to log goes to stderr, and nothing else breaks. */
export function sturdy(logger: Logger): CheckedLogger {
  const at = (level: keyof Logger) => (facts: LogFacts, name: LogName) => {
    try {
      logger[level]?.(facts, name)
    } catch {
      stderrLogger[level]?.(facts, name)
    }
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/**
 * One line per entry, with any stack indented below it. Control characters are escaped, so that text thrown by a
 * program can neither control the terminal nor pass for a line of ours.
 */
function write(level: string, { stack, ...facts }: LogFacts, name: LogName): void {
  const shown = Object.entries(facts).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? jsonLine(value) : String(value)}`,
  )
  const below = typeof stack === 'string' ? `\n${printableLines(stack).replace(/^/gm, '    ')}` : ''
  process.stderr.write(`${printable(`holdfast ${level} ${name} ${shown.join(' ')}`)}${below}\n`)
}
