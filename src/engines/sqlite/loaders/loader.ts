/** What a loader is: the rows behind each selector. */
import type { Selectors } from '../../../port/selector.ts'
import type { Source } from '../rows.ts'

/** One function per selector. Real SQL, parameters only; the source carries the lease clock and the wall clock. */
export type Loaders = {
  readonly [Name in keyof Selectors]: (source: Source, selector: Selectors[Name][0]) => Selectors[Name][1]
}
