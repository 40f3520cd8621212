/** Puts things that wait for one another in an order in which each comes after those it waits for. */
import { waves } from '../domain/task-hint.ts'

export interface Named {
  readonly name: string
}

type WaitsFor<Thing> = (thing: Thing) => readonly string[]

/** Leaves out what waits for itself, and what waits for that. Things named as dependencies but not in the list are ignored. */
export function inOrder<Thing extends Named>(things: readonly Thing[], waitsFor: WaitsFor<Thing>): Thing[] {
  const byName = new Map(things.map((thing) => [thing.name, thing]))
  const nodes = things.map((thing) => ({ id: thing.name, waitingFor: waitsFor(thing) }))
  return waves(nodes).flatMap((names) => names.map((name) => byName.get(name) as Thing))
}

/** Everything that waits for itself through others, with those members of the cycle that it waits for directly. */
export function circlesOf<Thing extends Named>(
  things: readonly Thing[],
  waitsFor: WaitsFor<Thing>,
): { readonly member: Thing; readonly others: readonly string[] }[] {
  const stuck = stuckOf(things, waitsFor)
  // Things behind a cycle are stuck too. Walked in the other direction, they are not.
  const waiters = new Map<string, string[]>()
  for (const thing of stuck) {
    for (const name of waitsFor(thing)) {
      const known = waiters.get(name)
      if (known) known.push(thing.name)
      else waiters.set(name, [thing.name])
    }
  }
  const members = stuckOf(stuck, ({ name }) => waiters.get(name) ?? [])
  const names = new Set(members.map(({ name }) => name))
  return members.map((member) => ({ member, others: waitsFor(member).filter((name) => names.has(name)) }))
}

function stuckOf<Thing extends Named>(things: readonly Thing[], waitsFor: WaitsFor<Thing>): Thing[] {
  const free = new Set(inOrder(things, waitsFor))
  return things.filter((thing) => !free.has(thing))
}
