/** Something was in the way: the batch was rolled back and should run again. */
export class RetryBatch extends Error {
  /** Leases have lapsed or delays ended: heal first. */
  readonly heals: boolean
  /** Damaged items have to be detected and skipped. */
  readonly avoidsDamaged: boolean
  /** Others are working on what could be claimed: a moment later it is theirs or free again. */
  readonly isShort: boolean
  constructor(why: string, { heals = false, avoidsDamaged = false, isShort = false } = {}) {
    super(why)
    this.heals = heals
    this.avoidsDamaged = avoidsDamaged
    this.isShort = isShort
  }
}
