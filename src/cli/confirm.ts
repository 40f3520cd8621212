/** Asks for confirmation before something that cannot be undone. Needs a terminal. */
import { drawn } from './drawing.ts'

export async function confirm(question: string): Promise<boolean> {
  const { confirm: ask, isCancel } = await import('@clack/prompts')
  const answer = await ask({ message: drawn(question), initialValue: false, output: process.stderr })
  return !isCancel(answer) && answer
}
