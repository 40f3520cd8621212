/** `holdfast workflow`. */
import { verb } from '../verb.ts'
import { printable } from '../view.ts'

const define = verb<{ name: string; defined: boolean }>({
  name: 'define',
  operation: 'workflow.define',
  positional: ['workflow'],
  body: 'workflow',
  makesStore: true,
  help: '  holdfast workflow define - < review.json',
  text: ({ name, defined }) => `${printable(name)}  ${defined ? 'defined' : 'was defined already'}`,
})

export const workflowVerbs = [define]
