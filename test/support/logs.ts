/** A logger that keeps its lines. */
import type { Logger, LogName } from 'holdfast'

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly name: LogName
  readonly facts: Readonly<Record<string, unknown>>
}

export function collectLogs(): { logger: Logger; lines: LogLine[]; named(name: LogName): LogLine[] } {
  const lines: LogLine[] = []
  const keep = (level: LogLine['level']) => (facts: LogLine['facts'], name: LogName) => {
    lines.push({ level, name, facts })
  }
  return {
    logger: { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') },
    lines,
    named: (name) => lines.filter((line) => line.name === name),
  }
}
