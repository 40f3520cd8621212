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

type More = Pick<Group, 'alias' | 'leavesStdout'>

/** A command of its own: the verb that its module exports under the same name. */
function single<Name extends string>(
  name: Name,
  summary: string,
  load: () => Promise<{ readonly [Each in Name]: Verb }>,
  more: More = {},
): Group {
  return { name, summary, isSingle: true, load: async () => [(await load())[name]], ...more }
}

/** A noun with verbs. */
function noun(name: string, summary: string, load: () => Promise<{ verbs: readonly Verb[] }>): Group {
  return { name, summary, load: async () => (await load()).verbs }
}

/** A name that older tools use for a verb of `locks`. */
function oldName(name: string, verb: 'cleanup' | 'detect' | 'lockStatus', summary: string): Group {
  const load = async () => [(await import('./verbs/locks.ts'))[verb]]
  return { name, summary, isSingle: true, isHidden: true, load }
}

const under = (section: string, groups: readonly Group[]) => groups.map((group) => ({ ...group, section }))

export const catalogue: readonly Group[] = [
  ...under('Set up:', [
    single('init', 'create a store for this folder or repository', () => import('./verbs/init.ts')),
    single('copy', 'copy a whole store to another location or engine', () => import('./verbs/copy.ts')),
    noun('import', 'import data from other tools', () => import('./verbs/import.ts')),
    noun('config', 'show settings and where they come from', () => import('./verbs/config.ts')),
    single('trust', "trust the settings in a folder's config.toml", () => import('./verbs/trust.ts')),
    single('completion', 'completions for bash, zsh and fish', () => import('./verbs/completion.ts')),
    single(
      'demo',
      'kill and freeze real workers and watch the work heal, in under a minute',
      () => import('./verbs/demo.ts'),
    ),
  ]),
  ...under('Look:', [
    single('status', 'the whole fleet on one screen', () => import('./verbs/status.ts')),
    single('watch', 'the same, live', () => import('./verbs/status.ts')),
    single('explain', 'explain why something is waiting, held or stuck', () => import('./verbs/explain.ts')),
    single('find', 'find what a word refers to', () => import('./verbs/explain.ts')),
    single(
      'prime',
      'print one page of context for an agent that is starting up',
      () => import('./verbs/prime.ts'),
    ),
    noun('events', 'the audit trail: what changed, when, and by whom', () => import('./verbs/event.ts')),
  ]),
  ...under('Work:', [
    single('run', 'run a command under a lease: a lock, an item or a task', () => import('./verbs/run.ts'), {
      leavesStdout: true,
    }),
    noun('queue', 'jobs and merge queues: add, claim, complete, inspect', () => import('./verbs/queue.ts')),
    noun('task', 'tasks shared by agents and people', () => import('./verbs/task.ts')),
    noun('lock', 'named locks and path reservations', () => import('./verbs/lock.ts')),
    noun('runs', 'progress of runs, under the locks held for them', () => import('./verbs/progress.ts')),
    noun('msg', 'messages that must be acknowledged', () => import('./verbs/message.ts')),
    noun('state', 'versioned JSON documents', () => import('./verbs/state.ts')),
    noun('agent', 'agents and their processes', () => import('./verbs/agent.ts')),
    noun('workflow', 'custom workflows', () => import('./verbs/workflow.ts')),
  ]),
  ...under('Heal:', [
    single('doctor', 'check for problems and suggest remedies', () => import('./verbs/doctor.ts')),
    noun('locks', 'inspect everything held, and reclaim what has lapsed', () => import('./verbs/locks.ts')),
    single(
      'recover',
      'reclaim what has lapsed and what dead holders held',
      () => import('./verbs/recover.ts'),
      { alias: 'heal' },
    ),
  ]),
  oldName('cleanup-locks', 'cleanup', 'the same as locks cleanup'),
  oldName('detect-stale-locks', 'detect', 'the same as locks detect'),
  oldName('lock-status', 'lockStatus', 'the same as locks detect, but only reports'),
]
