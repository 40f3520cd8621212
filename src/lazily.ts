/** What is made when it is first asked for: a process needs little of it, and to make all takes it a while. */
export function lazily<Thing>(make: () => Thing): () => Thing {
  let made: Thing | undefined
  return () => {
    made ??= make()
    return made
  }
}
