/** Stored events, their checkpoint and images. */
import type { GrantEnd, Loss } from '../domain/crash-pattern.ts'
import type { EventKind, Image, StoredEvent, Subject } from '../domain/event.ts'
import type { Horizon } from '../domain/horizon.ts'

/** Where the retained events begin; everything earlier is in the images. */
export interface Checkpoint {
  readonly name: 'events'
  readonly seq: number
  /** The last trusted date of what came before. */
  readonly at: number
  /** Digest over every event removed so far; each range is chained to the one before. */
  readonly digest: string
  readonly version: number
}

/** A thing as it was at the checkpoint. */
export interface ImageRow {
  readonly subject: Subject
  readonly id: string
  readonly image: Image
}

/** A range of events starting at the oldest one kept; it can only be removed. */
export interface SealedEvents {
  readonly through: number
  readonly count: number
}

/** Null lets every event pass. */
export interface EventFilter {
  readonly of: { readonly subject: Subject; readonly id: string } | null
  readonly subject: Subject | null
  readonly kinds: readonly EventKind[] | null
  /** Events of this queue and its items. */
  readonly queue: string | null
}

export interface EventSelectors {
  events: [
    {
      since: number
      limit: number
      /** Only events about one thing. */
      of: EventFilter['of']
      newest: boolean
      /** Only events before this sequence number. */
      before?: number | undefined
    },
    readonly StoredEvent[],
  ]
  /**
   * Events that pass a filter. They have no index, so at most `window` events are examined: of everything, or of one
   * thing. `next` is the number to continue from; null if there is nothing more.
   */
  eventsAbout: [
    EventFilter & {
      since: number
      before: number | null
      newest: boolean
      limit: number
      window: number
    },
    { readonly events: readonly StoredEvent[]; readonly next: number | null },
  ]
  /** Leases lost within this time by the wall clock, newest first. */
  losses: [{ sinceMs: number; limit: number }, readonly Loss[]]
  /** How grants ended, newest first, according to the newest `window` events. */
  grantEnds: [{ window: number }, readonly GrantEnd[]]
  /** A few of the events after this one: the newest, then halving the distance each time. */
  eventSamples: [{ after: number }, readonly Pick<StoredEvent, 'at'>[]]
  checkpoint: [Record<never, never>, Checkpoint | null]
  horizons: [Record<never, never>, readonly Horizon[]]
  images: [{ keys: readonly { subject: Subject; id: string }[] }, readonly ImageRow[]]
  /** Images by subject and id, after the given one. */
  imagePage: [{ after: { subject: string; id: string } | null; limit: number }, readonly ImageRow[]]
  /** The highest token any deleted row of this namespace had. */
  tokenFloor: [Record<never, never>, number]
}
