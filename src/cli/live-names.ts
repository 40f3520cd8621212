/** Names of what is in the store right now, for completions. Reads are quick, and never create a store. */
import { existsSync } from 'node:fs'
import { isName } from '../domain/name.ts'
import { taskQueue } from '../domain/task.ts'
import { pause } from '../environment.ts'
import type { Holdfast } from '../handle/holdfast.ts'
import { openBounded } from '../handle/open.ts'
import { systemEnvironment } from '../host/system.ts'
import { storeFile } from './home.ts'
import type { Io } from './io.ts'
import { type GlobalOptions, readSettings, type Settings } from './settings.ts'

export interface Candidate {
  readonly value: string
  readonly description: string
}

export type LiveKind =
  | 'queues'
  | 'items'
  | 'tasks'
  | 'locks'
  | 'agents'
  | 'runs'
  | 'messages'
  | 'documents'
  | 'things'

/** A shell that waits longer feels broken, and an unreachable server takes longer than that to fail. */
const patienceMs = 1500
const limit = 500
/** A store may have come with a repository: names of what is in it are not worth the memory of a large value. */
const maxReadBytes = 8 * 1024 * 1024

/** `queue`: the queue whose items are listed. */
export async function loadNames(
  kind: LiveKind,
  queue: string | null,
  io: Io,
  globals: GlobalOptions,
): Promise<readonly Candidate[]> {
  const settings = await readSettings(io, globals)
  const file = storeFile(settings.store.value)
  if (file !== null && !existsSync(file)) return []
  const answered = new AbortController()
  const tooLate = pause(systemEnvironment, patienceMs, answered.signal).then((): Candidate[] => [])
  try {
    const found = await Promise.race([readNames(kind, queue, settings), tooLate])
    // No operation creates any other name, but a store made by someone else may contain one that a shell would execute.
    return found.filter(({ value }) => isName(value))
  } finally {
    answered.abort()
  }
}

async function readNames(kind: LiveKind, queue: string | null, settings: Settings): Promise<Candidate[]> {
  const hf = await openBounded(maxReadBytes, settings.store.value, {
    agent: settings.agent.value,
    namespace: settings.namespace.value,
    busyTimeoutMs: patienceMs,
    mustExist: true,
    background: false,
    redelivery: false,
    recovery: { onOpen: false, onClaim: false },
    logger: false,
  })
  try {
    return await namesIn(hf, kind, queue)
  } finally {
    await hf.close()
  }
}

/** The names of one kind in an open store. */
export function namesIn(hf: Holdfast, kind: LiveKind, queue?: string | null): Promise<Candidate[]> {
  return readers[kind](hf, queue ?? taskQueue)
}

type Reader = (hf: Holdfast, queue: string) => Promise<Candidate[]>

const readers: Readonly<Record<LiveKind, Reader>> = {
  async queues(hf) {
    const { queues } = await hf.execute('queue.listQueues', {})
    return queues.map(({ name, workflow, pausedAt }) => ({
      value: name,
      description: pausedAt === null ? workflow : `${workflow}, paused`,
    }))
  },

  async items(hf, queue) {
    const { items } = await hf.execute('queue.list', { queue, limit })
    return items.flatMap(({ id, key, state }) => byKeyAndId(id, key, state))
  },

  async tasks(hf) {
    const { tasks } = await hf.execute('tasks.listTasks', { limit })
    return tasks.flatMap(({ id, key, status, title }) => byKeyAndId(id, key, `${status}: ${title}`))
  },

  async locks(hf) {
    const { locks } = await hf.execute('locks.list', { limit })
    return unique(locks.map(({ name, holder }) => ({ value: name, description: heldBy(holder) })))
  },

  async agents(hf) {
    const [agents, { locks }] = await Promise.all([
      hf.execute('agents.list', {}),
      hf.execute('recovery.detectStaleLocks', {}),
    ])
    return unique([
      ...agents.map(({ agent, pid }) => ({ value: agent, description: `process ${pid}` })),
      ...locks.flatMap(({ assignee }) =>
        assignee === null ? [] : [{ value: assignee, description: 'holds something' }],
      ),
      { value: hf.agent, description: 'you' },
    ])
  },

  async runs(hf) {
    const { runs } = await hf.execute('runs.list', { limit })
    return runs.map(({ run, status }) => ({ value: run, description: status }))
  },

  async messages(hf) {
    const [pending, inbox] = await Promise.all([
      hf.execute('messages.checkPendingAcks', { limit }),
      hf.execute('messages.inbox', { limit }),
    ])
    return unique(
      [...inbox.messages, ...pending.messages].map(({ id, sender, type }) => ({
        value: id,
        description: `${type} from ${sender}`,
      })),
    )
  },

  async documents(hf) {
    const { states } = await hf.execute('state.list', { limit })
    return states.map(({ key, version }) => ({ value: key, description: `version ${version}` }))
  },

  async things(hf, queue) {
    const kinds = ['tasks', 'locks', 'queues', 'agents'] as const
    const found = await Promise.all(kinds.map((kind) => readers[kind](hf, queue)))
    return unique(found.flat())
  },
}

/** Offers the key, which people type, and the id, which programs print. */
function byKeyAndId(id: string, key: string | null, description: string): Candidate[] {
  return [...(key === null ? [] : [{ value: key, description }]), { value: id, description }]
}

function heldBy(holder: string | null): string {
  return holder === null ? 'lapsed' : `held by ${holder}`
}

function unique(candidates: readonly Candidate[]): Candidate[] {
  return [...new Map([...candidates].reverse().map((each) => [each.value, each])).values()].reverse()
}
