/** Two connections: what is seen on one may be known before the answer on the other. */
import type { MovableEnvironment } from 'holdfast/testing'
import { expect, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('a lease that its own process is ending is not reported as lost', async () => {
    const { env, store } = await engine.open({ background: false })
    let answer = () => {}
    let isCommitting = false
    const environment = {
      ...boundTo(env),
      reached(point: string) {
        isCommitting ||= point === 'transaction.applied' && isCompleting
      },
      outside<Result>(work: Promise<Result>): Promise<Result> {
        if (!isCommitting) return env.outside(work)
        isCommitting = false
        // The server commits, and its answer is long under way.
        return new Promise((resolve) => {
          answer = () => resolve(work)
        })
      },
    }
    let isCompleting = false
    const hf = await store.open({ environment })
    const jobs = hf.queue('jobs')
    await jobs.add(null)
    const { item, lease } = await claimed(jobs.next())
    let isAborted = false
    lease?.signal.addEventListener('abort', () => {
      isAborted = true
    })

    isCompleting = true
    const completing = jobs.complete(item.id)
    await env.advance(0)
    isCompleting = false
    await env.advance(2_000)
    answer()
    await completing
    await env.advance(2_000)

    expect(isAborted).toBe(false)
  })
})

/** The methods of an environment, to be spread into another. */
function boundTo(env: MovableEnvironment) {
  return {
    isLocal: true as const,
    host: env.host,
    now: () => env.now(),
    monotonic: () => env.monotonic(),
    uptime: () => env.uptime(),
    random: () => env.random(),
    id: () => env.id(),
    timer: (ms: number, run: () => void) => env.timer(ms, run),
  }
}
