/**
 * Hints about tasks: which overlap, which can run together, and which chain everything waits for. They block nothing;
 * an agent that ignores them loses no guarantee.
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
  /** `dependency`: one waits for the other, and both are in progress. */
  readonly because: 'dependency' | 'paths' | 'labels'
  readonly shared: readonly string[]
}

/** Nobody reads more than this. */
const maxOverlaps = 1000

/**
 * Pairs of tasks in progress that touch the same things: dependencies first, then paths, then labels. Only pairs with a
 * name in common are compared, because two thousand tasks would make two million pairs.
 */
export function overlaps(tasks: readonly Hinted[]): Overlap[] {
  const running = tasks.filter(({ inProgress }) => inProgress)
  const indexes = indexesOf(running)
  const found: Overlap[] = []
  for (const [index, left] of running.entries()) {
    const others = [...new Set(namesMetBy(left).flatMap((name) => indexes.get(name) ?? []))]
    for (const other of others.filter((each) => each > index).sort((one, two) => one - two)) {
      found.push(overlapOf(left, running[other] as Hinted))
      if (found.length === maxOverlaps) return found
    }
  }
  return found
}

/** Indexes of the tasks, keyed by the names under which others look for them. */
function indexesOf(tasks: readonly Hinted[]): Map<string, number[]> {
  const indexes = new Map<string, number[]>()
  for (const [index, { id, labels, paths, waitingFor }] of tasks.entries()) {
    const names = [
      `id ${id}`,
      ...waitingFor.map((blocker) => `after ${blocker}`),
      ...labels.map((label) => `label ${label}`),
      ...paths.map((path) => `path ${withoutSlash(path)}`),
      ...paths.flatMap((path) => foldersOf(path).map((folder) => `in ${folder}`)),
    ]
    for (const name of new Set(names)) {
      const known = indexes.get(name)
      if (known) known.push(index)
      else indexes.set(name, [index])
    }
  }
  return indexes
}

function namesMetBy({ id, labels, paths, waitingFor }: Hinted): string[] {
  return [
    `after ${id}`,
    ...waitingFor.map((blocker) => `id ${blocker}`),
    ...labels.map((label) => `label ${label}`),
    ...paths.map((path) => `in ${withoutSlash(path)}`),
    ...paths.flatMap((path) => foldersOf(path).map((folder) => `path ${folder}`)),
  ]
}

function withoutSlash(path: string): string {
  return path.replace(/\/+$/, '')
}

/** The path itself and every folder above it. */
function foldersOf(path: string): string[] {
  const whole = withoutSlash(path)
  const parts = whole.split('/').slice(0, maxFolders)
  return [...parts.map((_, index) => parts.slice(0, index + 1).join('/')), whole]
}

/** Deeper than any real folder; a path with a thousand slashes must not expand to a million characters. */
const maxFolders = 64

/** Why two tasks with a name in common overlap. */
function overlapOf(left: Hinted, right: Hinted): Overlap {
  const tasks = [left.id, right.id] as const
  const waits = left.waitingFor.includes(right.id) || right.waitingFor.includes(left.id)
  if (waits) return { tasks, because: 'dependency', shared: [] }
  const paths = left.paths.filter((path) =>
    right.paths.some((other) => isWithin(path, other) || isWithin(other, path)),
  )
  if (paths.length > 0) return { tasks, because: 'paths', shared: paths }
  return { tasks, because: 'labels', shared: left.labels.filter((label) => right.labels.includes(label)) }
}

/** Whether it is the same path, or inside that folder. */
function isWithin(path: string, folder: string): boolean {
  return `${withoutSlash(path)}/`.startsWith(`${withoutSlash(folder)}/`)
}

/**
 * Dependency levels: the tasks of a wave can all run at once when the waves before it are done. Tasks in a cycle, and
 * those behind it, are in none.
 */
export function waves(tasks: readonly Pick<Hinted, 'id' | 'waitingFor'>[]): string[][] {
  const behind = new Map<string, string[]>(tasks.map(({ id }) => [id, []]))
  const open = new Map<string, number>()
  for (const { id, waitingFor } of tasks) {
    const known = waitingFor.filter((blocker) => behind.has(blocker))
    for (const blocker of known) behind.get(blocker)?.push(id)
    open.set(id, known.length)
  }
  const rank = new Map(tasks.map(({ id }, index) => [id, index]))
  const levels: string[][] = []
  let wave = tasks.map(({ id }) => id).filter((id) => open.get(id) === 0)
  while (wave.length > 0) {
    levels.push(wave)
    wave = wave
      .flatMap((id) => behind.get(id) as string[])
      .filter((id) => {
        const left = (open.get(id) as number) - 1
        open.set(id, left)
        return left === 0
      })
      .sort((one, two) => (rank.get(one) as number) - (rank.get(two) as number))
  }
  return levels
}

/** The longest chain of tasks that wait for one another, in the order they must be done. */
export function criticalPath(tasks: readonly Hinted[]): string[] {
  const byId = new Map(tasks.map((task) => [task.id, task]))
  const lengths = new Map<string, number>()
  const previous = new Map<string, string | null>()
  const lengthOf = (id: string) => lengths.get(id) ?? 0
  // Going wave by wave, everything a task waits for already has its length.
  for (const id of waves(tasks).flat()) {
    const before = longest((byId.get(id) as Hinted).waitingFor, lengthOf)
    previous.set(id, before)
    lengths.set(id, 1 + (before === null ? 0 : lengthOf(before)))
  }
  const path: string[] = []
  for (let id = longest([...lengths.keys()], lengthOf); id !== null; id = previous.get(id) as string | null)
    path.push(id)
  return path.reverse()
}

/** The first of the longest; null if none has a length. */
function longest(ids: readonly string[], lengthOf: (id: string) => number): string | null {
  let best: string | null = null
  for (const id of ids) if (lengthOf(id) > (best === null ? 0 : lengthOf(best))) best = id
  return best
}
