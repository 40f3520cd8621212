/** The pages of docs/reference/, each made from the code. */
import { commandLinePage } from './command-line.ts'
import { errorsPage } from './errors.ts'
import { eventsPage } from './events.ts'
import { libraryPage } from './library.ts'
import { logPage } from './log-lines.ts'
import { optionsPage } from './options.ts'

export const pages: Readonly<Record<string, () => string | Promise<string>>> = {
  'docs/reference/cli.md': commandLinePage,
  'docs/reference/errors.md': errorsPage,
  'docs/reference/events.md': eventsPage,
  'docs/reference/library.md': libraryPage,
  'docs/reference/log.md': logPage,
  'docs/reference/options.md': optionsPage,
}
