/** `holdfast workflow`. */
import { verb } from '../verb.ts'

const define = verb({
  name: 'define',
  operation: 'workflow.define',
  positional: ['workflow'],
  body: 'workflow',
  makesStore: 'always',
  help: '  holdfast workflow define - < review.json',
  text: ({ name, defined }) => `${name}  ${defined ? 'defined' : 'was already defined'}`,
})

export const workflowVerbs = [define]
