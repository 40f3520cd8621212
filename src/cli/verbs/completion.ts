/** `holdfast completion`. */
import { nearestName } from '../../domain/name.ts'
import { InvalidError } from '../../errors.ts'
import { scripts, shells } from '../completion-script.ts'
import { textLines } from '../drawing.ts'
import { verb } from '../verb.ts'

export const completion = verb({
  name: 'completion',
  summary: 'Print the completion script for a shell: commands, options, and names from the store.',
  arguments: [['<shell>', shells.join(', ')]],
  help: `In the start-up file of the shell:
  eval "$(holdfast completion bash)"
  eval "$(holdfast completion zsh)"
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish`,
  async act({ rest: [word = ''] }) {
    const shell = shells.find((each) => each === word)
    if (shell !== undefined) return { shell, script: scripts[shell] }
    const nearest = nearestName(word, shells)
    throw new InvalidError({
      what: `<shell>: "${word}" is not one of ${shells.join(', ')}`,
      next: nearest ? `did you mean "${nearest}"?` : `give one of ${shells.join(', ')}`,
    })
  },
  text: ({ script }) => textLines(script.trimEnd()),
})
