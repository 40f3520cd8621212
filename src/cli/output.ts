/** What becomes of output that nobody takes: a reader that left, a disk that is full. */

/** Listens before the first word is written: an error without a listener would end the process with a stack. */
export function guardOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // A reader that has seen enough (`| head`) is no error.
    if (error.code === 'EPIPE') process.exit(0)
    process.stderr.write(
      `error  stdout cannot be written: ${error.message}\nnext   give it a place with room; what the command did is done\n`,
    )
    process.exit(unexpected)
  })
  // Nobody listens any more; what is done goes on, and its exit code tells of it.
  process.stderr.on('error', () => {})
}

/** That of INTERNAL: what was asked for may have been done, but nobody was told. */
const unexpected = 1
