/** Asks before something that cannot be taken back; on a terminal only. */
export async function confirm(question: string): Promise<boolean> {
  const { confirm: ask, isCancel } = await import('@clack/prompts')
  const answer = await ask({ message: question, initialValue: false, output: process.stderr })
  return !isCancel(answer) && answer
}
