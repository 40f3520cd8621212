/** Handles output that cannot be delivered because the reader is gone or the disk is full. */

/** Call before the first write: without a listener, an error would crash the process with a stack trace. */
export function guardOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // A reader that stops early (`| head`) is not an error.
    if (error.code === 'EPIPE') process.exit(0)
    process.stderr.write(
      `error  cannot write to stdout: ${error.message}\nnext   free some space or redirect the output; the changes that the command made stand\n`,
    )
    process.exit(unexpected)
  })
  // Nobody is reading stderr. The command continues, and its exit code tells the outcome.
  process.stderr.on('error', () => {})
}

/** The exit code of INTERNAL: the command may have taken effect, but its answer was lost. */
const unexpected = 1
