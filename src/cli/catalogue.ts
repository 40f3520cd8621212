/** Every command, by name. The verbs of a group are loaded only when one of them is needed. */
import type { Verb } from './verb.ts'

export interface Group {
  readonly name: string
  readonly summary: string
  /** The verbs of a noun, or a single verb. */
  readonly load: () => Promise<readonly Verb[]>
  readonly isSingle?: true
  readonly isHidden?: true
  /** The heading under which the help lists it. */
  readonly section?: string
  readonly alias?: string
  /** Stdout belongs to the program it starts, so its own output goes to stderr, including refusals. */
  readonly leavesStdout?: true
}

export const catalogue: readonly Group[] = [
  {
    name: 'init',
    section: 'Set up:',
    summary: 'create a store for this folder or repository',
    isSingle: true,
    load: async () => [(await import('./verbs/init.ts')).init],
  },
  {
    name: 'status',
    section: 'Look:',
    summary: 'the whole fleet on one screen',
    isSingle: true,
    load: async () => [(await import('./verbs/status.ts')).status],
  },
  {
    name: 'watch',
    section: 'Look:',
    summary: 'the same, live',
    isSingle: true,
    load: async () => [(await import('./verbs/status.ts')).watch],
  },
  {
    name: 'explain',
    section: 'Look:',
    summary: 'explain why something is waiting, held or stuck',
    isSingle: true,
    load: async () => [(await import('./verbs/explain.ts')).explain],
  },
  {
    name: 'run',
    section: 'Work:',
    summary: 'run a command under a lease: a lock, an item or a task',
    isSingle: true,
    leavesStdout: true,
    load: async () => [(await import('./verbs/run.ts')).run],
  },
  {
    name: 'find',
    section: 'Look:',
    summary: 'find what a word refers to',
    isSingle: true,
    load: async () => [(await import('./verbs/explain.ts')).find],
  },
  {
    name: 'doctor',
    section: 'Heal:',
    summary: 'check for problems and suggest remedies',
    isSingle: true,
    load: async () => [(await import('./verbs/doctor.ts')).doctor],
  },
  {
    name: 'prime',
    section: 'Look:',
    summary: 'print one page of context for an agent that is starting up',
    isSingle: true,
    load: async () => [(await import('./verbs/prime.ts')).prime],
  },
  {
    name: 'queue',
    section: 'Work:',
    summary: 'jobs and merge queues: add, claim, complete, inspect',
    load: async () => (await import('./verbs/queue.ts')).queueVerbs,
  },
  {
    name: 'task',
    section: 'Work:',
    summary: 'tasks shared by agents and people',
    load: async () => (await import('./verbs/task.ts')).taskVerbs,
  },
  {
    name: 'lock',
    section: 'Work:',
    summary: 'named locks and path reservations',
    load: async () => (await import('./verbs/lock.ts')).lockVerbs,
  },
  {
    name: 'locks',
    section: 'Heal:',
    summary: 'inspect everything held, and reclaim what has lapsed',
    load: async () => (await import('./verbs/locks.ts')).locksVerbs,
  },
  {
    name: 'runs',
    section: 'Work:',
    summary: 'progress of runs, under the locks held for them',
    load: async () => (await import('./verbs/progress.ts')).progressVerbs,
  },
  {
    name: 'msg',
    section: 'Work:',
    summary: 'messages that must be acknowledged',
    load: async () => (await import('./verbs/message.ts')).messageVerbs,
  },
  {
    name: 'state',
    section: 'Work:',
    summary: 'versioned JSON documents',
    load: async () => (await import('./verbs/state.ts')).stateVerbs,
  },
  {
    name: 'agent',
    section: 'Work:',
    summary: 'agents and their processes',
    load: async () => (await import('./verbs/agent.ts')).agentVerbs,
  },
  {
    name: 'events',
    section: 'Look:',
    summary: 'the audit trail: what changed, when, and by whom',
    load: async () => (await import('./verbs/event.ts')).eventVerbs,
  },
  {
    name: 'recover',
    section: 'Heal:',
    alias: 'heal',
    summary: 'reclaim what has lapsed and what dead holders held',
    isSingle: true,
    load: async () => [(await import('./verbs/recover.ts')).recover],
  },
  {
    name: 'workflow',
    section: 'Work:',
    summary: 'custom workflows',
    load: async () => (await import('./verbs/workflow.ts')).workflowVerbs,
  },
  {
    name: 'copy',
    section: 'Set up:',
    summary: 'copy a whole store to another location or engine',
    isSingle: true,
    load: async () => [(await import('./verbs/copy.ts')).copy],
  },
  {
    name: 'import',
    section: 'Set up:',
    summary: 'import data from other tools',
    load: async () => (await import('./verbs/import.ts')).importVerbs,
  },
  {
    name: 'config',
    section: 'Set up:',
    summary: 'show settings and where they come from',
    load: async () => (await import('./verbs/config.ts')).configVerbs,
  },
  {
    name: 'trust',
    section: 'Set up:',
    summary: "trust the settings in a folder's config.toml",
    isSingle: true,
    load: async () => [(await import('./verbs/trust.ts')).trust],
  },
  {
    name: 'completion',
    section: 'Set up:',
    summary: 'completions for bash, zsh and fish',
    isSingle: true,
    load: async () => [(await import('./verbs/completion.ts')).completion],
  },
  // Names that older tools use.
  {
    name: 'cleanup-locks',
    summary: 'the same as locks cleanup',
    isSingle: true,
    isHidden: true,
    load: async () => [(await import('./verbs/locks.ts')).cleanup],
  },
  {
    name: 'detect-stale-locks',
    summary: 'the same as locks detect',
    isSingle: true,
    isHidden: true,
    load: async () => [(await import('./verbs/locks.ts')).detect],
  },
  {
    name: 'lock-status',
    summary: 'the same as locks detect, but only reports',
    isSingle: true,
    isHidden: true,
    load: async () => [(await import('./verbs/locks.ts')).lockStatus],
  },
  {
    name: 'demo',
    section: 'Set up:',
    summary: 'kill and freeze real workers and watch the work heal, in under a minute',
    isSingle: true,
    load: async () => [(await import('./verbs/demo.ts')).demo],
  },
]
