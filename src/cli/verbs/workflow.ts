/** `holdfast workflow`. */
import { verb } from '../verb.ts'

const define = verb({
  operation: 'workflow.define',
  body: 'workflow',
  makesStore: 'always',
  help: '  holdfast workflow define - < review.json',
  text: ({ name, defined }) => `${name}  ${defined ? 'defined' : 'was already defined'}`,
})

export const verbs = [define]
