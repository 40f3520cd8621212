/** What the system answers; null if it refuses: there is no such thing, or this process may not see it. */
export function unlessRefused<Found>(ask: () => Found): Found | null {
  try {
    return ask()
  } catch {
    return null
  }
}
