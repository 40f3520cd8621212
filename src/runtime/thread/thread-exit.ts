/**
 * A process that exits ends its threads wherever they are, and the SQLite driver aborts the whole process when that is
 * in the middle of a call: exit code 134 instead of the program's own. So the last thing done is to let them out.
 */
import type { Worker } from 'node:worker_threads'

/** A thread that opens a store: 1 in its cell while it is inside. */
export interface OpenThread {
  readonly thread: Worker
  readonly cell: Int32Array<SharedArrayBuffer>
}

/** One piece of healing or a checkpoint; who takes longer is not waited for. */
const patienceMs = 2000

const threads = new Set<OpenThread>()

/** Returns how to forget a thread that has ended. */
export function waitForThreadAtExit(open: OpenThread): () => void {
  if (threads.size === 0) process.on('exit', waitForThreads)
  threads.add(open)
  return () => {
    threads.delete(open)
    if (threads.size === 0) process.off('exit', waitForThreads)
  }
}

function waitForThreads(): void {
  for (const { thread } of threads) thread.postMessage('stop')
  for (const { cell } of threads) Atomics.wait(cell, 0, 1, patienceMs)
}

/** In the thread: from before the store is opened. */
export function markOpen(cell: Int32Array<SharedArrayBuffer>): void {
  Atomics.store(cell, 0, 1)
}

/** In the thread: after the store is closed. */
export function markClosed(cell: Int32Array<SharedArrayBuffer>): void {
  Atomics.store(cell, 0, 0)
  Atomics.notify(cell, 0)
}
