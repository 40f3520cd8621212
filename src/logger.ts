/** Log lines have stable names and facts. By default, the library logs only warnings and errors. */
import { jsonLine, printable, printableLines } from './domain/text.ts'

/** The name of every log line. */
export const logNames = [
  'recovery.completed',
  'recovery.failed',
  'lease.reclaimed',
  'renew.failed',
  'release.failed',
  'clock.jumped',
  'clock.doubtful',
  'process.wedged',
  'worker.failed',
  'worker.stopping',
  'item.failed',
  'result.dropped',
  'retention.failed',
  'state.conflict',
  'state.saved',
  'state.gave_up',
  'process.rejoined',
  'store.warning',
  'store.branch_refused',
  'store.branch_adopted',
  'store.commits_lost',
  'store.lost',
  'locks.summary',
  'locks.many_stale',
  'cleanup.done',
  'renew.seldom',
  'redelivery.failed',
  'wake.degraded',
  'delivery.failed',
  'message.escalated',
  'message.dead',
  'message.conflict',
] as const

/** The stable name of a log line. */
export type LogName = (typeof logNames)[number]
/** The facts of a log line, by name. */
export type LogFacts = Readonly<Record<string, unknown>>

/** What `open` accepts as a logger; pino and the console fit. */
export interface Logger {
  debug?(facts: LogFacts, name: LogName): void
  info?(facts: LogFacts, name: LogName): void
  warn(facts: LogFacts, name: LogName): void
  error(facts: LogFacts, name: LogName): void
}

/** The default: warnings and errors to stderr. */
export const stderrLogger: Logger = {
  warn: (facts, name) => write('warn', facts, name),
  error: (facts, name) => write('error', facts, name),
}

/** Logs nothing. */
export const silentLogger: Logger = { warn() {}, error() {} }

/** Wraps a program's own logger, which may throw. What it fails to log goes to stderr, and nothing else breaks. */
export function sturdy(logger: Logger): Logger {
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
