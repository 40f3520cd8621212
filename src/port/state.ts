/** Documents: how a command names them. */
import type { State, StateFloor, StateSummary } from '../domain/state.ts'
import type { Page } from './page.ts'

export interface StateSelectors {
  state: [{ key: string }, State | null]
  /** 0 if there is no such document. */
  stateVersion: [{ key: string }, number]
  stateFloor: [Record<never, never>, StateFloor | null]
  /** Documents by key, without their values. */
  states: [{ prefix: string; limit: number; after: string | null }, Page<StateSummary>]
}
