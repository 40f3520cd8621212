/** Log lines have stable names and facts; the library writes only warnings and above unless told otherwise. */
export const logNames = [
  'recovery.completed',
  'recovery.failed',
  'lease.reclaimed',
  'renew.failed',
  'clock.jumped',
  'clock.doubtful',
  'process.wedged',
  'worker.failed',
  'retention.failed',
  'state.conflict',
  'state.saved',
  'state.gave_up',
  'process.rejoined',
  'locks.summary',
  'locks.many_stale',
  'cleanup.done',
  'renew.seldom',
  'redelivery.failed',
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

function write(level: string, facts: LogFacts, name: LogName): void {
  const shown = Object.entries(facts).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? JSON.stringify(value) : String(value)}`,
  )
  process.stderr.write(`holdfast ${level} ${name} ${shown.join(' ')}\n`)
}
