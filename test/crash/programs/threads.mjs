// Opens the store in threads that end in different ways, each with an item it has claimed, and prints their exit codes.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

const ways = {
  async closed(hf) {
    await hf.close()
  },
  async terminated(hf) {
    await hf.close()
    parentPort.postMessage('closed')
    setInterval(() => {}, 1000)
  },
  returned() {},
  exited() {
    process.exit(3)
  },
  threw() {
    throw new Error('the thread failed')
  },
}

if (isMainThread) {
  const store = process.argv[2]
  const codes = await Promise.all(Object.keys(ways).map((way) => codeOf(store, way)))
  console.log(JSON.stringify(Object.fromEntries(codes)))
} else {
  // Only here: the main thread is one that does not use the package.
  const { open } = await import('holdfast')
  const { store, way } = workerData
  const hf = await open(store, { agent: way, leaseMs: 1000, logger: false })
  await hf.queue(way).add('work')
  await hf.queue(way).next()
  await ways[way](hf)
}

async function codeOf(store, way) {
  const thread = new Worker(new URL(import.meta.url), { workerData: { store, way } })
  thread.on('error', () => {})
  thread.on('message', () => void thread.terminate())
  return [way, await new Promise((resolve) => thread.once('exit', resolve))]
}
