/** Makes something on first use. A process needs only a few of these, and making all of them takes a while. */
export function lazily<Thing>(make: () => Thing): () => Thing {
  let made: Thing | undefined
  return () => {
    made ??= make()
    return made
  }
}
