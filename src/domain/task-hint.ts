/**
 * Hints about tasks: what overlaps, what can run together, what everything waits for. They block nothing; whoever
 * ignores them loses no guarantee.
 */

export interface Hinted {
  readonly id: string
  readonly inProgress: boolean
  readonly labels: readonly string[]
  readonly paths: readonly string[]
  /** Open tasks it waits for. */
  readonly waitingFor: readonly string[]
}

export interface Overlap {
  readonly tasks: readonly [string, string]
  /** `dependency`: one waits for the other, and both are being worked on. */
  readonly because: 'dependency' | 'paths' | 'labels'
  readonly shared: readonly string[]
}

/** Nobody reads more. */
const overlapsMax = 1000

/** Pairs of tasks in progress that touch the same things: dependencies first, then paths, then labels. */
export function overlaps(tasks: readonly Hinted[]): Overlap[] {
  const running = tasks.filter(({ inProgress }) => inProgress)
  const found: Overlap[] = []
  for (const [index, left] of running.entries()) {
    for (const right of running.slice(index + 1)) {
      const overlap = overlapOf(left, right)
      if (overlap) found.push(overlap)
      if (found.length === overlapsMax) return found
    }
  }
  return found
}

function overlapOf(left: Hinted, right: Hinted): Overlap | null {
  const tasks = [left.id, right.id] as const
  const waits = left.waitingFor.includes(right.id) || right.waitingFor.includes(left.id)
  if (waits) return { tasks, because: 'dependency', shared: [] }
  const paths = left.paths.filter((path) =>
    right.paths.some((other) => isWithin(path, other) || isWithin(other, path)),
  )
  if (paths.length > 0) return { tasks, because: 'paths', shared: paths }
  const labels = left.labels.filter((label) => right.labels.includes(label))
  return labels.length > 0 ? { tasks, because: 'labels', shared: labels } : null
}

/** The same path, or one inside the folder the other names. */
function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
}

/** Levels of the dependencies: each wave can run at once when the ones before it are done. */
export function waves(tasks: readonly Hinted[]): string[][] {
  const levels: string[][] = []
  const placed = new Set<string>()
  const known = new Set(tasks.map(({ id }) => id))
  let rest = tasks
  // What stood in a circle would never be placed; circles are refused when dependencies are set.
  for (let wave = ready(rest); wave.length > 0; wave = ready(rest)) {
    levels.push(wave)
    for (const id of wave) placed.add(id)
    rest = rest.filter(({ id }) => !placed.has(id))
  }
  return levels

  function ready(waiting: readonly Hinted[]): string[] {
    return waiting
      .filter((task) => task.waitingFor.every((id) => placed.has(id) || !known.has(id)))
      .map(({ id }) => id)
  }
}

/** The longest chain of tasks that wait for one another, in the order they must be done. */
export function criticalPath(tasks: readonly Hinted[]): string[] {
  const byId = new Map(tasks.map((task) => [task.id, task]))
  const chains = new Map<string, string[]>()
  // Wave by wave, what a task waits for has its chain already.
  for (const id of waves(tasks).flat()) {
    const before = (byId.get(id) as Hinted).waitingFor.map((blocker) => chains.get(blocker) ?? [])
    chains.set(id, [...longest(before), id])
  }
  return longest([...chains.values()])
}

function longest(chains: readonly string[][]): string[] {
  return chains.reduce((best, chain) => (chain.length > best.length ? chain : best), [])
}
