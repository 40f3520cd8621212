/** A page of a list. */

export interface Page<Row> {
  readonly rows: readonly Row[]
  /** Pass as `after` to continue; null at the end. */
  readonly next: string | null
}
