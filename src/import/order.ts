/** Things that wait for one another, put in an order in which each comes after what it waits for. */

export interface Named {
  readonly name: string
}

type WaitsFor<Thing> = (thing: Thing) => readonly string[]

/** Things that wait for things that are not there are not held up by that. There must be no circles. */
export function inOrder<Thing extends Named>(things: readonly Thing[], waitsFor: WaitsFor<Thing>): Thing[] {
  return walk(things, waitsFor).ordered
}

/** Everything that waits for itself through others, with those it waits for directly. */
export function circlesOf<Thing extends Named>(
  things: readonly Thing[],
  waitsFor: WaitsFor<Thing>,
): { readonly member: Thing; readonly others: readonly string[] }[] {
  const { stuck } = walk(things, waitsFor)
  // Behind a circle others are stuck too; seen from the other end they are not.
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

/** Takes away what waits for nothing, again and again; what is left is stuck. */
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
  // It grows while it is walked.
  for (const { name } of ordered) {
    for (const waiter of waiters.get(name) ?? []) {
      const left = (missing.get(waiter.name) as number) - 1
      missing.set(waiter.name, left)
      if (left === 0) ordered.push(waiter)
    }
  }
  return { ordered, stuck: things.filter(({ name }) => missing.get(name) !== 0) }
}
