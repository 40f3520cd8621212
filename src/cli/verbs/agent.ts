/** `holdfast agent`: agents and their processes. */

import { errorCodes, InvalidError } from '../../errors.ts'
import type { Agent } from '../../handle/agents.ts'
import { type Drawing, lines } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
import { verb } from '../verb.ts'
import type { View } from '../view.ts'

const register = verb({
  name: 'register',
  summary:
    'Register the process that runs an agent: its leases end at once when that process is proven dead.',
  options: [
    {
      flags: '--pid <pid>',
      description: 'pid of the process, such as $PPID; never of the command that registers it',
    },
  ],
  makesStore: true,
  help: '  holdfast agent register --agent ada --pid $PPID',
  async act(call) {
    const { pid } = call.options as { pid?: string }
    if (pid === undefined || !/^[1-9]\d{0,9}$/.test(pid)) {
      throw new InvalidError({
        what: pid === undefined ? 'no process was named' : `--pid: "${pid}" is not a process id`,
        next: 'give the pid of the process that lives as long as the agent, such as $PPID',
      })
    }
    const hf = await call.open()
    return hf.agents.register({ pid: Number(pid) })
  },
  text: (agent, view) => agentTable([agent], view),
  json: (agent) => ({ agent }),
})

const beat = verb({
  name: 'beat',
  operation: 'agents.beat',
  async act(call) {
    const hf = await call.open()
    return hf.agents.beat()
  },
  text: (alive) => (alive ? 'alive' : 'no running process is registered'),
  json: (alive) => ({ alive }),
  exit: (alive) => (alive ? 0 : errorCodes.NOT_FOUND.exit),
})

function agentTable(agents: readonly Agent[], view: View): Drawing {
  return view.table(
    ['agent', 'host', 'pid', 'since', 'crashes', 'liveness'],
    agents.map((agent) => [
      agent.agent,
      agent.hostName,
      agent.pid,
      view.time(agent.startedAt),
      agent.suspect ? `${agent.crashes} (suspect)` : agent.crashes,
      `${agent.liveness}: ${agent.evidence}`,
    ]),
  )
}

const list = verb({
  name: 'list',
  operation: 'agents.list',
  async act(call) {
    const hf = await call.open()
    return hf.agents.list({ ...call.input })
  },
  text: agentTable,
  json: (agents) => ({ agents }),
})

const show = verb({
  name: 'show',
  summary: 'Show the processes of an agent and everything it holds.',
  arguments: [['<name>', 'name of the agent']],
  async act(call) {
    const hf = await call.open()
    const [name = ''] = call.rest
    const [agents, held] = [await hf.agents.list({ limit: 500 }), await hf.recovery.detectStaleLocks()]
    return {
      agent: name,
      processes: agents.filter(({ agent }) => agent === name),
      holds: held.locks.filter(({ assignee }) => assignee === name),
    }
  },
  text({ agent, processes, holds }, view) {
    const rows = holds.map(({ kind, title, token, isExpired, expiredMs, remainingMs }) => [
      kind,
      title,
      token,
      isExpired ? `expired ${formatDuration(expiredMs)} ago` : `${formatDuration(remainingMs)} left`,
    ])
    return lines([
      processes.length === 0 ? `${agent} has no running process` : agentTable(processes, view),
      ...(rows.length === 0 ? ['holds nothing'] : ['', view.table(['kind', 'what', 'token', 'lease'], rows)]),
    ])
  },
})

export const agentVerbs = [register, beat, list, show]
