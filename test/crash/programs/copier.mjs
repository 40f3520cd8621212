/** A process that copies a store and, if told so, dies when it reaches a named point for the so-many-th time. */
import { copyStore } from 'holdfast'
import { systemEnvironment } from 'holdfast/testing'

const { from, to, point, times } = JSON.parse(process.argv[2])
let left = times

await copyStore({
  from,
  to,
  environment: {
    ...systemEnvironment,
    reached(reached) {
      if (reached !== point) return
      left -= 1
      if (left === 0) process.kill(process.pid, 'SIGKILL')
    },
  },
})
