/** The last recovery that changed anything, read from its columns. */

export function lastRunOf(row: readonly unknown[]) {
  const [at, trigger, by, locksCleaned, entriesReclaimed, quarantined, messagesReclaimed] = row
  return {
    at: Number(at),
    trigger: String(trigger),
    by: String(by),
    locksCleaned: Number(locksCleaned),
    entriesReclaimed: Number(entriesReclaimed),
    quarantined: Number(quarantined),
    messagesReclaimed: Number(messagesReclaimed),
  }
}
