// Cleans up after the process that started it: node server-guard.mjs <folder>
//
// Its input says "+pid" for a server that was started and "-pid" for one that ended. When the input ends, by a
// close or because that process was killed, it stops the servers that are left and deletes the folder.

import { rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'

const [folder] = process.argv.slice(2)
const running = new Set()

for await (const line of createInterface({ input: process.stdin })) {
  const pid = Number(line.slice(1))
  if (line.startsWith('+')) running.add(pid)
  else running.delete(pid)
}

// SIGQUIT is PostgreSQL's immediate shutdown: nobody will ever want this data.
for (const pid of running) signal(pid, 'SIGQUIT')
for (let waitedMs = 0; [...running].some((pid) => signal(pid, 0)); waitedMs += 20) {
  if (waitedMs > 5_000) for (const pid of running) signal(pid, 'SIGKILL')
  await pause(20)
}
rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })

/** Whether there was a process to tell. */
function signal(pid, name) {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}
