/** Claims of tasks, as the test expects them. */
import type { NextTask, TaskClaim } from 'holdfast'
import { expect } from 'vitest'

type Granted = Extract<TaskClaim, { outcome: 'claimed' }>

/** The claim that was granted. */
export async function claimedTask(claiming: Promise<TaskClaim | NextTask>): Promise<Granted> {
  const claim = await claiming
  expect(claim).toMatchObject({ outcome: 'claimed' })
  return claim as Granted
}
