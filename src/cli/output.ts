/** Output that cannot be delivered: the reader has left, or the disk is full. */

/** Listens before the first word is written: an error without a listener would end the process with a stack. */
export function guardOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // A reader that has seen enough (`| head`) is not an error.
    if (error.code === 'EPIPE') process.exit(0)
    process.stderr.write(
      `error  stdout cannot be written: ${error.message}\nnext   free some space or redirect the output; what the command changed stays changed\n`,
    )
    process.exit(unexpected)
  })
  // Nobody is reading; the command goes on, and its exit code tells the outcome.
  process.stderr.on('error', () => {})
}

/** That of INTERNAL: what was asked for may have been done, but nobody was told. */
const unexpected = 1
