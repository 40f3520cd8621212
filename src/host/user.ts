/** The user this process acts for, by the numbers that file systems use. */

type Env = Readonly<Record<string, string | undefined>>

/**
 * Owners whose files this user may rely on: the user, root, and under sudo the user who called it. Null if files have
 * no such owners (Windows).
 */
export function trustedOwners(env: Env): ReadonlySet<number> | null {
  const own = process.getuid?.()
  if (own === undefined) return null
  const caller = sudoCaller(env)
  return new Set([own, 0, ...(caller === null ? [] : [caller])])
}

/** The user who called sudo; null without sudo. */
export function sudoCaller({ SUDO_UID }: Env): number | null {
  return process.getuid?.() === 0 && /^\d{1,10}$/.test(SUDO_UID ?? '') ? Number(SUDO_UID) : null
}
