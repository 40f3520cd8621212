import type { Selectors } from '../../engine.ts'
import type { Source } from '../rows.ts'

/** One function a selector. Real SQL, parameters only; the lease clock and wall clock come with the source. */
export type Loaders = {
  readonly [Name in keyof Selectors]: (source: Source, selector: Selectors[Name][0]) => Selectors[Name][1]
}
