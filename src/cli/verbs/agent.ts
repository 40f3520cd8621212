/** `holdfast agent`: agents and their processes. */

import { InvalidError } from '../../errors.ts'
import type { Agent } from '../../handle/agents.ts'
import type { StaleLocks } from '../../operations/lease/watch.ts'
import { lines } from '../drawing.ts'
import { type Column, drawTable } from '../layout.ts'
import { verb } from '../verb.ts'
import { expiryText } from './lease-marks.ts'

const agentColumns: readonly Column<Agent>[] = [
  'agent',
  ['host', 'hostName'],
  'pid',
  ['since', 'startedAt'],
  ['crashes', ({ crashes, suspect }) => (suspect ? `${crashes} (suspect)` : crashes)],
  ['liveness', ({ liveness, evidence }) => `${liveness}: ${evidence}`],
]

const heldColumns: readonly Column<StaleLocks['locks'][number]>[] = [
  'kind',
  ['what', 'title'],
  'token',
  ['lease', expiryText],
]

export const verbs = [
  verb({
    name: 'register',
    noun: 'agent',
    summary:
      'Register the process that runs an agent: its leases end at once when that process is proven dead.',
    options: [
      {
        flags: '--pid <pid>',
        kind: 'integer',
        description: 'pid of the process, such as $PPID; never of the command that registers it',
      },
    ],
    makesStore: 'named',
    help: '  holdfast agent register --agent ada --pid $PPID',
    async act(call) {
      const { pid } = call.options as { pid?: number }
      if (pid === undefined) {
        const next = 'give --pid of the process that lives as long as the agent, such as $PPID'
        throw new InvalidError({ what: 'no process was named', next })
      }
      if (call.settings.agent.origin === 'default') throw nobodyOfThatName(call.settings.agent.value)
      const hf = await call.open()
      return hf.agents.register({ pid })
    },
    text: (agent, view) => drawTable(agentColumns, [agent], view),
  }),
  verb({
    noun: 'alive',
    operation: 'agents.beat',
    act: async (call) => (await call.open()).agents.beat(),
    says: { yes: 'alive', no: 'no running process is registered', exit: 'NOT_FOUND' },
  }),
  verb<'agents.list', readonly Agent[]>({
    noun: 'agents',
    operation: 'agents.list',
    act: async (call) => (await call.open()).agents.list({ ...call.input }),
    columns: agentColumns,
  }),
  verb({
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
      return lines([
        processes.length === 0 ? `${agent} has no running process` : drawTable(agentColumns, processes, view),
        ...(holds.length === 0 ? ['holds nothing'] : ['', drawTable(heldColumns, holds, view)]),
      ])
    },
  }),
]

/** Claims belong to the process registered last, so its end would take from all commands without a name. */
function nobodyOfThatName(agent: string): InvalidError {
  return new InvalidError({
    what: `${agent} is the name of all commands here that have none, and no process is theirs alone`,
    next: 'set HOLDFAST_AGENT to a name of your own, or give one with --agent',
    facts: { agent },
  })
}
