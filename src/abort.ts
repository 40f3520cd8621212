/**
 * Listening to abort signals. A program may pass one signal to any number of calls and keep it for as long as it runs. So
 * each signal gets one listener, however many calls wait for it (Node warns of a leak above ten), and nothing of a call
 * stays behind on it: `AbortSignal.any` would leave an entry on a long-lived signal for every signal derived from it.
 */

interface Act {
  readonly run: () => void
}

const waiting = new WeakMap<AbortSignal, Set<Act>>()

/**
 * Calls back when the signal fires; at once if it has already fired. The returned function stops listening. The callback
 * must not throw.
 */
export function onAbort(signal: AbortSignal | undefined, run: () => void): () => void {
  if (signal === undefined) return () => {}
  if (signal.aborted) {
    run()
    return () => {}
  }
  const acts = waiting.get(signal) ?? listenTo(signal)
  // A new object per call: the same function may be added twice.
  const act = { run }
  acts.add(act)
  return () => {
    acts.delete(act)
    if (acts.size > 0 || waiting.get(signal) !== acts) return
    waiting.delete(signal)
    signal.removeEventListener('abort', fire)
  }
}

function listenTo(signal: AbortSignal): Set<Act> {
  const acts = new Set<Act>()
  waiting.set(signal, acts)
  signal.addEventListener('abort', fire, { once: true })
  return acts
}

function fire({ target }: Event): void {
  const acts = waiting.get(target as AbortSignal) ?? []
  waiting.delete(target as AbortSignal)
  for (const { run } of [...acts]) run()
}
