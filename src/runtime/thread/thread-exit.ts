/**
 * A process that exits ends its threads wherever they are, and if that is in the middle of a call, the SQLite driver
 * aborts the whole process: exit code 134 instead of the program's own. So the last thing done is to wait for the
 * threads to get out.
 */
import type { Worker } from 'node:worker_threads'

/** A thread that opens a store: its cell is 1 while it has the store open. */
export interface OpenThread {
  readonly thread: Worker
  readonly cell: Int32Array<SharedArrayBuffer>
}

/** Enough for one piece of healing or a checkpoint; a thread that takes longer is not waited for. */
const patienceMs = 2000

const threads = new Set<OpenThread>()

/** Call the result to forget a thread that has ended. */
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

/** In the thread: call before opening the store. */
export function markOpen(cell: Int32Array<SharedArrayBuffer>): void {
  Atomics.store(cell, 0, 1)
}

/** In the thread: call after closing the store. */
export function markClosed(cell: Int32Array<SharedArrayBuffer>): void {
  Atomics.store(cell, 0, 0)
  Atomics.notify(cell, 0)
}
