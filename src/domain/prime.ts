/** What an agent should do first when it starts: finish what it holds, answer, then take the next task. */
import { counted } from './count.ts'

export interface PrimeFacts {
  /** What the agent holds, soonest expiry first. */
  readonly holds: readonly {
    readonly kind: 'task' | 'item' | 'lock' | 'delivery'
    readonly title: string
    readonly remainingMs: number
    /** A process renews it. */
    readonly isRenewed: boolean
  }[]
  readonly unread: number
  /** Titles of claimable tasks, best first. */
  readonly tasks: readonly string[]
  /** Other queues that have something ready. */
  readonly queues: readonly string[]
  /** Whether a process is registered for the agent. */
  readonly isRegistered: boolean
}

export interface Advice {
  readonly what: string
  readonly operation: string | null
}

export function advise({ holds, unread, tasks, queues, isRegistered }: PrimeFacts): Advice[] {
  // Work comes first, because locks are only held for its sake.
  const first = holds.find(({ kind }) => kind === 'task' || kind === 'item') ?? holds[0]
  const advice: Advice[] = []
  if (first) advice.push({ what: goOnWith(first), operation: null })
  if (unread > 0) {
    advice.push({ what: `answer ${counted(unread, 'unread message')}`, operation: 'messages.inbox' })
  }
  if (!first) advice.push(nextWork(tasks[0], queues[0]))
  if (!isRegistered) {
    const what = 'register your process, so that your leases end at once when it dies'
    advice.push({ what, operation: 'agents.register' })
  }
  return advice
}

function nextWork(task: string | undefined, queue: string | undefined): Advice {
  if (task !== undefined) return { what: `claim the next task: ${task}`, operation: 'tasks.claimNext' }
  if (queue !== undefined) return { what: `claim from queue ${queue}`, operation: 'queue.next' }
  return { what: 'nothing to claim: wait for work, or add some', operation: 'tasks.addTask' }
}

function goOnWith({ title, remainingMs, isRenewed }: PrimeFacts['holds'][number]): string {
  if (remainingMs < 0) return `your lease of ${title} has lapsed: renew it, or stop working on it`
  if (isRenewed) return `go on with ${title}; its lease is renewed for you`
  return `go on with ${title}; renew its lease before it lapses`
}
