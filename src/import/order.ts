/** Puts things that wait for one another in an order in which each comes after those it waits for. */

export interface Named {
  readonly name: string
}

type WaitsFor<Thing> = (thing: Thing) => readonly string[]

/** Things named as dependencies but not in the list are ignored. There must be no cycles. */
export function inOrder<Thing extends Named>(things: readonly Thing[], waitsFor: WaitsFor<Thing>): Thing[] {
  return walk(things, waitsFor).ordered
}

/** Everything that waits for itself through others, with those members of the cycle that it waits for directly. */
export function circlesOf<Thing extends Named>(
  things: readonly Thing[],
  waitsFor: WaitsFor<Thing>,
): { readonly member: Thing; readonly others: readonly string[] }[] {
  const { stuck } = walk(things, waitsFor)
  // Things behind a cycle are stuck too. Walked in the other direction, they are not.
  const waiters = new Map<string, string[]>()
  for (const thing of stuck) {
    for (const name of waitsFor(thing)) {
      const known = waiters.get(name)
      if (known) known.push(thing.name)
      else waiters.set(name, [thing.name])
    }
  }
  const members = walk(stuck, ({ name }) => waiters.get(name) ?? []).stuck
  const names = new Set(members.map(({ name }) => name))
  return members.map((member) => ({ member, others: waitsFor(member).filter((name) => names.has(name)) }))
}

/** Removes what waits for nothing, again and again; the rest is stuck. */
function walk<Thing extends Named>(things: readonly Thing[], waitsFor: WaitsFor<Thing>) {
  const byName = new Map(things.map((thing) => [thing.name, thing]))
  const missing = new Map<string, number>()
  const waiters = new Map<string, Thing[]>()
  for (const thing of things) {
    const names = [...new Set(waitsFor(thing))].filter((name) => byName.has(name))
    missing.set(thing.name, names.length)
    for (const name of names) {
      const known = waiters.get(name)
      if (known) known.push(thing)
      else waiters.set(name, [thing])
    }
  }
  const ordered = things.filter(({ name }) => missing.get(name) === 0)
  // Grows while it is iterated.
  for (const { name } of ordered) {
    for (const waiter of waiters.get(name) ?? []) {
      const left = (missing.get(waiter.name) as number) - 1
      missing.set(waiter.name, left)
      if (left === 0) ordered.push(waiter)
    }
  }
  return { ordered, stuck: things.filter(({ name }) => missing.get(name) !== 0) }
}
