/** `open(url, options)`: opens the engine, joins the fleet and starts the caretaker. */
import { shown } from '../domain/text.ts'
import { absoluteUrl, openEngine } from '../engines/open.ts'
import { isPostgresUrl } from '../engines/postgres/address.ts'
import type { Environment } from '../environment.ts'
import { InvalidError } from '../errors.ts'
import { defaultAgent } from '../host/agent-id.ts'
import { systemEnvironment } from '../host/system.ts'
import { type CheckedLogger, type Logger, silentLogger, stderrLogger, sturdy } from '../logger.ts'
import type { RecoveryReport } from '../operations/recovery/report.ts'
import { type OpenOptions, parseOptions, type Settings } from '../options.ts'
import type { EngineOptions, Executor } from '../port/engine.ts'
import { startCaretaker } from '../runtime/caretaker/caretaker-start.ts'
import { logRecovery } from '../runtime/caretaker/heal.ts'
import { RecoveryFailures } from '../runtime/caretaker/recovery-failures.ts'
import { Board } from '../runtime/lease/board.ts'
import { Keeper } from '../runtime/lease/keeper.ts'
import { endInstance } from '../runtime/session/instance-end.ts'
import { Session } from '../runtime/session/session.ts'
import { openThreaded } from '../runtime/thread/threaded-engine.ts'
import { Holdfast } from './holdfast.ts'

/**
 * Opens a store, and creates it unless it exists or `mustExist` is set: a path, `sqlite:path`, `sqlite::memory:` (private) or
 * `postgres://…`. Until `close()`, this process renews the leases it holds and reclaims what others lost. In a worker
 * thread, close the store before the thread is terminated: the SQLite driver aborts the whole process if a thread is
 * terminated in the middle of a call.
 */
export function open(store: string, options: OpenOptions = {}): Promise<Holdfast> {
  return openBounded(undefined, store, options)
}

/**
 * The same for a store file that may be a stranger's: reads about `maxReadBytes` of it at most. Lists end early, and a
 * value that is longer fails its call.
 */
export async function openBounded(
  maxReadBytes: number | undefined,
  store: string,
  options: OpenOptions,
): Promise<Holdfast> {
  assertUrl(store)
  const url = absoluteUrl(store)
  const settings = parseOptions(options, isPostgresUrl(url) ? 'postgres' : 'sqlite')
  const environment: Environment = settings.environment ?? systemEnvironment
  const agent = settings.agent ?? defaultAgent()
  const failures = new RecoveryFailures(environment, agent)
  const logger = watched(
    settings.logger === false ? silentLogger : (settings.logger ?? stderrLogger),
    failures,
  )
  const log: EngineOptions['log'] = (level, name, facts) => logger[level]?.(facts, name)
  // A PostgreSQL batch waits for answers while it holds row locks, so it runs on its own thread, where no handler of
  // this program can delay it.
  const isThreaded = isPostgresUrl(url) && settings.background && !environment.isLocal
  const engine = await (isThreaded ? openThreaded : openEngine)(url, {
    environment,
    mustExist: settings.mustExist,
    durability: settings.durability,
    busyTimeoutMs: settings.busyTimeoutMs,
    recoverOnOpen: settings.recovery.onOpen,
    patienceMs: settings.patienceMs,
    healing: {
      reclaims: settings.recovery.onClaim,
      done: (report, ms) => logRecovery(log, report as RecoveryReport, 'claim', ms),
      failed: (error, queue) =>
        logger.warn({ trigger: 'claim', queue, error: String(error) }, 'recovery.failed'),
    },
    manualGraceMs: settings.manualGraceMs,
    hasCaretaker: settings.background,
    maxReadBytes,
    onCascadeFailed: (error) =>
      logger.warn({ trigger: 'completion', queue: null, error: String(error) }, 'recovery.failed'),
    log,
  })
  if (environment.answered) tellAnswers(engine, environment.answered)
  for (const { what, remedy, isLasting } of engine.status.warnings ?? [])
    if (!isLasting) logger.warn({ what, remedy }, 'store.warning')
  try {
    return await begin({ url, engine, environment, settings, logger, failures, agent })
  } catch (error) {
    await engine.close()
    throw error
  }
}

/** Runs alongside the call, so the caller gets its answer no later. */
function tellAnswers(engine: Executor, answered: NonNullable<Environment['answered']>): void {
  const execute = engine.execute.bind(engine)
  engine.execute = (command) => {
    const answer = execute(command)
    answer.then(
      (value) => answered(command.operation, value),
      () => {},
    )
    return answer
  }
}

const unmarkedRemedy =
  'remove what is in its place; until then, others notice the death of this process only when its leases lapse'

function assertUrl(url: unknown): void {
  if (typeof url === 'string' && url !== '') return
  throw new InvalidError({
    what: `open: ${url === undefined ? 'the store is missing' : `${shown(url)} is not a store`}`,
    next: 'give a path, sqlite:path, sqlite::memory: or postgres://…',
  })
}

/** Recovery failures pass through here on their way to the log, so that each is counted no matter who ran into it. */
function watched(given: Logger, failures: RecoveryFailures): CheckedLogger {
  const logger = sturdy(given)
  const warn: CheckedLogger['warn'] = (facts, name) => {
    logger.warn(facts, name)
    if (name === 'recovery.failed') failures.note(facts)
  }
  return { ...logger, warn }
}

type Beginning = { url: string; settings: Settings } & Pick<
  Session,
  'engine' | 'environment' | 'logger' | 'failures' | 'agent'
>

async function begin({ url, ...parts }: Beginning): Promise<Holdfast> {
  const { engine, environment, settings, logger, agent } = parts
  const board = new Board()
  const keeper = new Keeper(environment, board, {
    wedgedAfterMs: settings.wedgedAfterMs,
    isStoreThere: () => engine.isThere?.() ?? true,
  })
  engine.onLost?.((how) => {
    const { location } = engine.status
    logger.error({ location, how, leases: keeper.refs().length }, 'store.lost')
    keeper.loseAll(`the store ${location} was ${how}`)
  })
  const instance = settings.background ? environment.id() : null
  const session = new Session({ ...parts, instance, keeper })
  const atOpen = settings.recovery.onOpen ? await session.recovery.healIfPossible('open') : null
  if (instance === null) return new Holdfast(session, atOpen)
  await session.call('instance.start', { id: instance, ...environment.host.identity })
  const unmarked = session.storeIsLocal ? null : environment.host.ownMark.enter(environment.host.identity)
  if (unmarked !== null) logger.warn({ what: unmarked, remedy: unmarkedRemedy }, 'store.warning')
  try {
    await keeper.startCaretaker(() =>
      startCaretaker({
        url,
        engine,
        environment,
        lost: (lease) => session.lost(lease),
        board,
        logger,
        settings,
        options: {
          namespace: settings.namespace,
          caller: { agent, instance },
          instance,
          recovery: settings.recovery,
          retention: settings.retention,
          wedgedAfterMs: settings.wedgedAfterMs,
          storeIsLocal: session.storeIsLocal,
          hasMoreToHeal: atOpen?.more ?? false,
        },
        rejoined: (fresh) => {
          session.instance = fresh
        },
      }),
    )
  } catch (error) {
    // Without a caretaker nobody would renew its claims, so the instance leaves again. If that fails too, it holds
    // nothing yet.
    await endInstance(session).catch(() => {})
    throw error
  }
  return new Holdfast(session, atOpen)
}
