/** One thing that a diagnosis found, and its remedy. */

export type FindingLevel = 'ok' | 'notice' | 'warning' | 'error'

export interface Finding {
  readonly check: string
  readonly level: FindingLevel
  readonly what: string
  /** What to do; null if nothing needs doing. */
  readonly remedy: string | null
  /** Whether `--fix` applies the remedy. */
  readonly isFixable: boolean
}

export function finding(
  check: string,
  level: FindingLevel,
  what: string,
  remedy: string | null,
  isFixable = false,
): Finding {
  return { check, level, what, remedy, isFixable }
}

export function ok(check: string, what: string): Finding {
  return finding(check, 'ok', what, null)
}

/** Whether a finding means that the store cannot be relied on. */
export function isUnhealthy(findings: readonly Finding[]): boolean {
  return findings.some(({ level }) => level === 'error')
}
