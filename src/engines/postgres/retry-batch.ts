/** The batch was rolled back and should be run again: something was in its way. */
export class RetryBatch extends Error {
  /** Leases have lapsed or delays ended: heal first. */
  readonly heals: boolean
  /** Damaged items are to be looked for, and passed over. */
  readonly avoidsDamaged: boolean
  /** Others are at work on what could be claimed: a moment later it is theirs, or there again. */
  readonly isShort: boolean
  constructor(why: string, { heals = false, avoidsDamaged = false, isShort = false } = {}) {
    super(why)
    this.heals = heals
    this.avoidsDamaged = avoidsDamaged
    this.isShort = isShort
  }
}
