/** Starts processes, talks to them, and makes sure that none is left behind. */
import { fork } from 'node:child_process'
import { once } from 'node:events'

const program = new URL('./member.mjs', import.meta.url)
const patienceMs = 60_000

export class Member {
  #process
  #heard = []
  #listeners = []

  constructor({ role, store, machine, leaseMs, settings = {} }) {
    // Processes that share a temporary folder see each other's marks, as those of one machine do.
    const env = machine === undefined ? process.env : { ...process.env, TMPDIR: machine }
    const options = leaseMs === undefined ? settings : { ...settings, leaseMs }
    this.#process = fork(program, [role, store, JSON.stringify(options)], { env, execArgv: [] })
    this.#process.on('message', (message) => {
      this.#heard.push(message)
      this.#listen()
    })
    this.#process.on('exit', (code, signal) => {
      const reason = new Error(`a ${role} ended with ${signal ?? code} although it was still needed`)
      for (const { reject, timer } of this.#listeners.splice(0)) {
        clearTimeout(timer)
        reject(reason)
      }
    })
  }

  /** On this machine and with default settings unless given otherwise. */
  static async start(place) {
    const member = new Member(place)
    await member.hear('ready')
    return member
  }

  tell(name, facts = {}) {
    this.#process.send({ name, ...facts })
  }

  /** The next message of this name. */
  hear(name) {
    return new Promise((resolve, reject) => {
      const late = () => reject(new Error(`nothing heard of "${name}" for ${patienceMs} ms`))
      const timer = setTimeout(late, patienceMs)
      this.#listeners.push({ name, resolve, reject, timer })
      this.#listen()
    })
  }

  #listen() {
    this.#listeners = this.#listeners.filter(({ name, resolve, timer }) => {
      const index = this.#heard.findIndex((message) => message.name === name)
      if (index === -1) return true
      clearTimeout(timer)
      resolve(this.#heard.splice(index, 1)[0])
      return false
    })
  }

  async ask(name, answer, facts = {}) {
    this.tell(name, facts)
    return this.hear(answer)
  }

  async close() {
    if (!this.#process.connected) return
    const exit = once(this.#process, 'exit')
    this.tell('close')
    await exit
  }

  /** kill -9. */
  async kill() {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const exit = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await exit
  }
}

/** Runs `use` with members of a role, and ends them afterwards, whatever happened. */
export async function withMembers({ count = 1, ...place }, use) {
  const members = await Promise.all(Array.from({ length: count }, () => Member.start(place)))
  try {
    const result = await use(members)
    await Promise.all(members.map((member) => member.close()))
    return result
  } finally {
    await Promise.all(members.map((member) => member.kill()))
  }
}
