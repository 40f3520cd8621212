/** One worker of the demo. It asks for completion even when it should know better, to show that the store refuses. */

import { pause } from '../environment.ts'
import { isHoldfastError } from '../errors.ts'
import { open } from '../handle/open.ts'
import { systemEnvironment } from '../host/system.ts'
import type { WorkerMessage } from './demo-fleet.ts'

const [store = '', queueName = '', name = ''] = process.argv.slice(2)
const leaseMs = 2000
const workMs = 250

const tell = (message: WorkerMessage) => process.send?.(message)
const sleep = (ms: number) => pause(systemEnvironment, ms)

process.on('disconnect', () => process.exit(0))
const hf = await open(store, { agent: name, leaseMs, logger: false })
const queue = hf.queue(queueName)
tell({ type: 'ready' })
for (;;) {
  const claim = await queue.next()
  if (claim.outcome !== 'claimed') {
    await sleep(50)
    continue
  }
  tell({ type: 'working', item: claim.item.id })
  await sleep(workMs)
  tell({ type: 'answered', item: claim.item.id, answer: await report(claim.item.id) })
}

async function report(item: string): Promise<string> {
  try {
    await queue.complete(item)
    return 'done'
  } catch (error) {
    return isHoldfastError(error) ? error.code : String(error)
  }
}
