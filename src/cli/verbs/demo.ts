/** `holdfast demo`. */
import { findingsText, demo as runDemo } from '../demo.ts'
import { verb } from '../verb.ts'

export const demo = verb({
  name: 'demo',
  summary: 'Kill and freeze real workers and watch the work heal, in under a minute.',
  act: runDemo,
  text: findingsText,
  exit: ({ ok }) => (ok ? 0 : 1),
})
