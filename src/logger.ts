/** Log lines have stable names and facts; the library writes only warnings and above unless told otherwise. */
import { jsonLine, printable, printableLines } from './domain/text.ts'

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

export type LogName = (typeof logNames)[number]
export type LogFacts = Readonly<Record<string, unknown>>

/** What `open` accepts as a logger; pino and the console fit. */
export interface Logger {
  debug?(facts: LogFacts, name: LogName): void
  info?(facts: LogFacts, name: LogName): void
  warn(facts: LogFacts, name: LogName): void
  error(facts: LogFacts, name: LogName): void
}

export const stderrLogger: Logger = {
  warn: (facts, name) => write('warn', facts, name),
  error: (facts, name) => write('error', facts, name),
}

export const silentLogger: Logger = { warn() {}, error() {} }

/** A program's own logger may throw; what it does not take goes to stderr, and nothing else breaks for it. */
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

/** A line for each, and a stack below it, indented: what a program threw can neither draw nor pass for a line of ours. */
function write(level: string, { stack, ...facts }: LogFacts, name: LogName): void {
  const shown = Object.entries(facts).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? jsonLine(value) : String(value)}`,
  )
  const below = typeof stack === 'string' ? `\n${printableLines(stack).replace(/^/gm, '    ')}` : ''
  process.stderr.write(`${printable(`holdfast ${level} ${name} ${shown.join(' ')}`)}${below}\n`)
}
