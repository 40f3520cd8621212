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

type More = Pick<Group, 'isHidden' | 'alias' | 'leavesStdout'>

/** A command of its own. */
function single(name: string, summary: string, load: () => Promise<Verb>, more: More = {}): Group {
  return { name, summary, isSingle: true, load: async () => [await load()], ...more }
}

/** A noun with verbs. */
function noun(name: string, summary: string, load: () => Promise<readonly Verb[]>): Group {
  return { name, summary, load }
}

const under = (section: string, groups: readonly Group[]) => groups.map((group) => ({ ...group, section }))

export const catalogue: readonly Group[] = [
  ...under('Set up:', [
    single(
      'init',
      'create a store for this folder or repository',
      async () => (await import('./verbs/init.ts')).init,
    ),
    single(
      'copy',
      'copy a whole store to another location or engine',
      async () => (await import('./verbs/copy.ts')).copy,
    ),
    noun(
      'import',
      'import data from other tools',
      async () => (await import('./verbs/import.ts')).importVerbs,
    ),
    noun(
      'config',
      'show settings and where they come from',
      async () => (await import('./verbs/config.ts')).configVerbs,
    ),
    single(
      'trust',
      "trust the settings in a folder's config.toml",
      async () => (await import('./verbs/trust.ts')).trust,
    ),
    single(
      'completion',
      'completions for bash, zsh and fish',
      async () => (await import('./verbs/completion.ts')).completion,
    ),
    single(
      'demo',
      'kill and freeze real workers and watch the work heal, in under a minute',
      async () => (await import('./verbs/demo.ts')).demo,
    ),
  ]),
  ...under('Look:', [
    single('status', 'the whole fleet on one screen', async () => (await import('./verbs/status.ts')).status),
    single('watch', 'the same, live', async () => (await import('./verbs/status.ts')).watch),
    single(
      'explain',
      'explain why something is waiting, held or stuck',
      async () => (await import('./verbs/explain.ts')).explain,
    ),
    single('find', 'find what a word refers to', async () => (await import('./verbs/explain.ts')).find),
    single(
      'prime',
      'print one page of context for an agent that is starting up',
      async () => (await import('./verbs/prime.ts')).prime,
    ),
    noun(
      'events',
      'the audit trail: what changed, when, and by whom',
      async () => (await import('./verbs/event.ts')).eventVerbs,
    ),
  ]),
  ...under('Work:', [
    single(
      'run',
      'run a command under a lease: a lock, an item or a task',
      async () => (await import('./verbs/run.ts')).run,
      { leavesStdout: true },
    ),
    noun(
      'queue',
      'jobs and merge queues: add, claim, complete, inspect',
      async () => (await import('./verbs/queue.ts')).queueVerbs,
    ),
    noun(
      'task',
      'tasks shared by agents and people',
      async () => (await import('./verbs/task.ts')).taskVerbs,
    ),
    noun(
      'lock',
      'named locks and path reservations',
      async () => (await import('./verbs/lock.ts')).lockVerbs,
    ),
    noun(
      'runs',
      'progress of runs, under the locks held for them',
      async () => (await import('./verbs/progress.ts')).progressVerbs,
    ),
    noun(
      'msg',
      'messages that must be acknowledged',
      async () => (await import('./verbs/message.ts')).messageVerbs,
    ),
    noun('state', 'versioned JSON documents', async () => (await import('./verbs/state.ts')).stateVerbs),
    noun('agent', 'agents and their processes', async () => (await import('./verbs/agent.ts')).agentVerbs),
    noun('workflow', 'custom workflows', async () => (await import('./verbs/workflow.ts')).workflowVerbs),
  ]),
  ...under('Heal:', [
    single(
      'doctor',
      'check for problems and suggest remedies',
      async () => (await import('./verbs/doctor.ts')).doctor,
    ),
    noun(
      'locks',
      'inspect everything held, and reclaim what has lapsed',
      async () => (await import('./verbs/locks.ts')).locksVerbs,
    ),
    single(
      'recover',
      'reclaim what has lapsed and what dead holders held',
      async () => (await import('./verbs/recover.ts')).recover,
      { alias: 'heal' },
    ),
  ]),
  // Names that older tools use.
  single(
    'cleanup-locks',
    'the same as locks cleanup',
    async () => (await import('./verbs/locks.ts')).cleanup,
    { isHidden: true },
  ),
  single(
    'detect-stale-locks',
    'the same as locks detect',
    async () => (await import('./verbs/locks.ts')).detect,
    { isHidden: true },
  ),
  single(
    'lock-status',
    'the same as locks detect, but only reports',
    async () => (await import('./verbs/locks.ts')).lockStatus,
    { isHidden: true },
  ),
]
