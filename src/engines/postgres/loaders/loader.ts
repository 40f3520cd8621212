/** What a loader is: the rows behind each selector. */
import type { Selectors } from '../../../port/selector.ts'
import type { Plan, PlanScope } from '../plan.ts'

/** One function per selector. Real SQL, parameters only; both clocks are read by the server. */
export type Loaders = {
  readonly [Name in keyof Selectors]: (
    selector: Selectors[Name][0],
    scope: PlanScope,
  ) => Plan<Selectors[Name][1]>
}
