/** The user this process acts for, by the numbers that file systems use. */

/**
 * Owners whose files this user may rely on: the user, root, and under sudo the user who called it. Null if files have
 * no such owners (Windows).
 */
export function trustedOwners(env: Readonly<Record<string, string | undefined>>): ReadonlySet<number> | null {
  const own = process.getuid?.()
  if (own === undefined) return null
  const caller = own === 0 && /^\d{1,10}$/.test(env.SUDO_UID ?? '') ? [Number(env.SUDO_UID)] : []
  return new Set([own, 0, ...caller])
}
