/** Lists that are too long for one request: reading them page by page, and sending them in chunks. */

/** Reads page after page until there are no more, or `isEnough` says so. */
export async function allPages<Cursor, Page extends { readonly next: Cursor | null }>(
  load: (after: Cursor | undefined) => Promise<Page>,
  isEnough: (pages: readonly Page[]) => boolean = () => false,
): Promise<Page[]> {
  const pages: Page[] = []
  for (let after: Cursor | null | undefined; after !== null; ) {
    const page = await load(after)
    pages.push(page)
    after = isEnough(pages) ? null : page.next
  }
  return pages
}

/** A list in parts of at most `size`; none if it is empty. */
export function* chunksOf<Each>(list: readonly Each[], size: number): Generator<Each[]> {
  for (let start = 0; start < list.length; start += size) yield list.slice(start, start + size)
}
