/** Every log line: its levels, what it means, what to do about it, and its fields. */

/** How urgent a line is. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** What a log line says, and what an operator does about it. */
interface LogLine {
  readonly levels: readonly LogLevel[]
  /** What happened. */
  readonly means: string
  /** What to do; null if nothing is needed. */
  readonly remedy: string | null
  readonly fields: Readonly<Record<string, string>>
}

const error = 'What went wrong, with the next step.'
const queue = 'The queue.'
const trigger = 'What started it: claim, completion, open, timer, waiter, death, manual.'
const delivery = {
  delivery: 'The delivery, one per recipient of a message.',
  recipient: 'Who should get it.',
}
const branch = {
  timeline: 'The timeline of the server that was found.',
  known: 'The timeline this process used before.',
}
const counts = {
  total: 'Locks that are held.',
  expiredCount: 'Leases that have expired.',
  nearExpiryCount: 'Leases that expire soon.',
  staleCount: 'Leases that expired longer ago than the threshold.',
  orphanedCount: 'Locks whose holder is dead.',
  suspectCount: 'Locks whose holder may be dead.',
}

/** Every log line. The compiler accepts no other name or field, and the reference page of log lines is made from it. */
export const logLines = {
  'recovery.completed': {
    levels: ['info'],
    means: 'Recovery reclaimed what dead or late holders held.',
    remedy: null,
    fields: {
      trigger,
      locksCleaned: 'Locks that were freed.',
      entriesReclaimed: 'Items that were given back.',
      quarantined: 'Items that crashed too often and were quarantined instead.',
      messagesReclaimed: 'Deliveries that will be sent again.',
      ms: 'How long it took.',
    },
  },
  'recovery.failed': {
    levels: ['warn'],
    means: 'Recovery could not run. This process and all others will try again.',
    remedy: 'If it repeats, fix the error and run `holdfast doctor`.',
    fields: {
      trigger,
      queue: 'The queue it was for, if any.',
      namespace: 'The namespace, if a different one.',
      error,
    },
  },
  'lease.reclaimed': {
    levels: ['warn'],
    means: 'A holder died or let its lease lapse, and lost an item, a lock or a delivery.',
    remedy: 'Find out why that holder stopped: crash, freeze, or a lease that is too short.',
    fields: {
      kind: 'What was reclaimed: item, lock, delivery.',
      id: 'Which one.',
      holder: 'The agent that lost it.',
      expiredForMs: 'How long ago its lease expired, in ms.',
      evidence: 'Why the holder counts as gone.',
    },
  },
  'renew.failed': {
    levels: ['warn', 'error'],
    means:
      'Leases could not be renewed. Renewal is retried until they lapse; at `error` the thread that renews has died and is started again within a second.',
    remedy: 'Check that the store can be reached. If `error` repeats, restart the process and report it.',
    fields: { subject: 'The lease, if there was only one.', leases: 'How many leases were due.', error },
  },
  'renew.seldom': {
    levels: ['warn'],
    means: 'A manual renewal runs so rarely that missing one loses the lease.',
    remedy: 'Renew at least twice per lease.',
    fields: { subject: 'The lease.', everyMs: 'How often it is renewed.', leaseMs: 'How long it lasts.' },
  },
  'release.failed': {
    levels: ['warn'],
    means:
      'The lock of finished work was not released. The release is retried; failing that, the lock lapses.',
    remedy: 'None, unless it repeats. Then check the store.',
    fields: { lock: 'The lock.', error },
  },
  'clock.jumped': {
    levels: ['warn'],
    means: 'A clock on this machine jumped, or the machine slept. Leases are checked at once.',
    remedy: 'If the machine did not sleep, check its time service.',
    fields: {
      sleptMs: 'How long the machine slept.',
      wallJumpMs: 'How far the date moved.',
    },
  },
  'clock.doubtful': {
    levels: ['warn'],
    means:
      'The clock of the PostgreSQL server may be wrong. Leases are renewed at once, and lapsed ones are left alone for a while.',
    remedy: 'Expected after a failover. Otherwise check the time service of the server.',
    fields: { reason: 'Why.', byMs: 'How far it seems to be off.' },
  },
  'process.wedged': {
    levels: ['error'],
    means: 'The main thread has not run for `wedgedAfterMs`, so its leases are no longer renewed.',
    remedy: 'Find the loop or call that blocks the event loop.',
    fields: { silentForMs: 'How long it has been silent.', leases: 'How many leases it is about to lose.' },
  },
  'process.rejoined': {
    levels: ['warn'],
    means:
      'Other processes took this one for dead, so it has joined again under a new id. What it held is lost.',
    remedy: 'Find out what stopped it: a suspended container, a long pause, an overloaded machine.',
    fields: { former: 'Its id before.', instance: 'Its id now.' },
  },
  'worker.failed': {
    levels: ['warn'],
    means:
      'A worker could not claim, finish or give back an item, or one of its listeners threw. It carries on.',
    remedy: 'Fix the error. What it could not give back lapses.',
    fields: { queue, item: 'The item, if any.', event: 'The event, if a listener threw.', error },
  },
  'worker.stopping': {
    levels: ['info'],
    means: 'A signal asked the process to stop, and its worker is draining.',
    remedy: null,
    fields: {
      queue,
      signal: 'The signal.',
      running: 'How many items are still running.',
      drainMs: 'How long they have.',
    },
  },
  'item.failed': {
    levels: ['info', 'warn'],
    means: 'A handler threw. At `info` it had been told to stop, and its item does not count as failed.',
    remedy: 'Fix the handler or the payload; see `holdfast explain <item>`.',
    fields: {
      queue,
      item: 'The item.',
      attempt: 'Which attempt it was.',
      error: 'The message of what was thrown.',
      code: 'Its code, if it has one.',
      stack: 'Its stack.',
    },
  },
  'result.dropped': {
    levels: ['warn'],
    means: 'A handler returned something that cannot be stored. The item is completed without a result.',
    remedy: 'Return plain JSON within the size limit, or nothing.',
    fields: { queue, item: 'The item.', error },
  },
  'retention.failed': {
    levels: ['warn'],
    means:
      'Old items or events could not be removed or exported. This is retried; the store grows meanwhile.',
    remedy: 'Check free space and the path in `retention.eventsExport`.',
    fields: { error },
  },
  'state.saved': {
    levels: ['debug'],
    means: 'A document was saved.',
    remedy: null,
    fields: { key: 'The document.', version: 'Its new version.' },
  },
  'state.conflict': {
    levels: ['info'],
    means: 'Someone else saved the document first. The update is repeated on the new version.',
    remedy: null,
    fields: { key: 'The document.', attempt: 'Which attempt hit the conflict.' },
  },
  'state.gave_up': {
    levels: ['warn'],
    means: 'An update hit a conflict on every attempt and was not saved.',
    remedy: 'Raise `maxAttempts`, or split the document.',
    fields: { key: 'The document.', attempts: 'How many attempts were made.' },
  },
  'store.warning': {
    levels: ['warn'],
    means: 'The store works, but something about it may cost safety or speed.',
    remedy: 'Do what `remedy` says.',
    fields: { what: 'What is wrong.', remedy: 'What to do.' },
  },
  'store.branch_refused': {
    levels: ['warn', 'error'],
    means: 'Found a PostgreSQL server whose history does not contain ours. It is not used.',
    remedy: 'Shut the old primary down. At `error`, two servers claim the same timeline and one must go.',
    fields: branch,
  },
  'store.branch_adopted': {
    levels: ['error'],
    means:
      'No server with our history came back, so this process now uses another one. Recent changes may be gone.',
    remedy: 'Compare the two servers; see the guide to high availability.',
    fields: branch,
  },
  'store.commits_lost': {
    levels: ['info', 'error'],
    means:
      'The server no longer has changes that it had acknowledged. At `info`, `durability` allowed for it.',
    remedy: 'Use synchronous replication if a failover must lose nothing.',
    fields: {
      ...branch,
      acknowledged: 'The last batch this process saw acknowledged; null if unknown.',
      found: 'The last batch the server has; null if none.',
      durability: 'The `durability` of this process.',
    },
  },
  'store.lost': {
    levels: ['error'],
    means:
      'The store file was removed or replaced. Every lease of this process is lost, and calls are refused.',
    remedy: 'Open the store again. Never replace a store file while it is open.',
    fields: { location: 'The store.', how: 'What happened to it.', leases: 'How many leases were lost.' },
  },
  'locks.summary': {
    levels: ['info'],
    means: 'The counts of a check for stale locks.',
    remedy: null,
    fields: counts,
  },
  'locks.many_stale': {
    levels: ['warn'],
    means: 'More than 10 locks are stale.',
    remedy: 'Find out why their holders do not come back; `holdfast doctor` names them.',
    fields: counts,
  },
  'cleanup.done': {
    levels: ['info'],
    means: 'A task cleanup freed what dead agents held.',
    remedy: null,
    fields: { operation: 'Which cleanup.', cleaned: 'How many tasks were freed.' },
  },
  'redelivery.failed': {
    levels: ['warn'],
    means: 'The background loop that sends messages hit an error. It carries on.',
    remedy: 'Fix the error. Messages wait until then.',
    fields: { error },
  },
  'delivery.failed': {
    levels: ['warn'],
    means: 'A message did not reach its recipient. It is retried, and finally escalated.',
    remedy: 'Check the webhook or command of the recipient.',
    fields: { ...delivery, error },
  },
  'message.escalated': {
    levels: ['warn'],
    means: 'Nobody acknowledged a message in time, so the next level was told.',
    remedy: 'Answer it, or find out why the recipient does not.',
    fields: { id: 'The message.', level: 'The level that was told.', unanswered: 'Who did not answer.' },
  },
  'message.dead': {
    levels: ['warn'],
    means: 'A message ran out of retries and levels. Nobody will be told again.',
    remedy: 'Read it with `holdfast message`, then redrive or cancel it.',
    fields: { id: 'The message.', reason: 'Why, if it is damaged.' },
  },
  'message.conflict': {
    levels: ['info'],
    means: 'A message was answered or taken over while it was being sent. The newer record stands.',
    remedy: null,
    fields: {
      delivery: delivery.delivery,
      expected: 'The version that was sent.',
      found: 'The version it has now.',
      reason: 'What happened meanwhile.',
    },
  },
  'wake.degraded': {
    levels: ['warn'],
    means: 'Files cannot be watched here, so changes by other processes are noticed up to 50 ms later.',
    remedy: 'Raise `fs.inotify.max_user_instances` or `max_user_watches` on Linux.',
    fields: { error: 'Why not.', what: 'What that costs.' },
  },
} as const satisfies Record<string, LogLine>

/** The stable name of a log line. */
export type LogName = keyof typeof logLines
/** The name of every log line. */
export const logNames = Object.keys(logLines) as readonly LogName[]
