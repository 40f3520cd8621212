// Which engines the suites run on. A suite that runs on every engine becomes one vitest project per engine, so that
// each engine has its own time and its own line in the table.
//
//   HOLDFAST_TEST_ENGINES=sqlite,postgres-18   only these engines; the default is below
//   HOLDFAST_TEST_POSTGRES_URL=postgres://…    your own server, as the engine `postgres`, instead of those from npm

const defaultEngines = ['sqlite', 'postgres-14', 'postgres-18']

/**
 * The conformance files that `npm test` runs on a server that is not the newest. An older server may refuse or misread
 * a statement. Together these files send most of the SQL statements that the whole suite sends, and some from every
 * operation. `npm run test:postgres` runs all files.
 */
const smoke = {
  'postgres-14': [
    'batch',
    'batch-cursor',
    'claim-waiting',
    'damaged-rows',
    'dry-runs',
    'events',
    'lock-places',
    'messages-damaged',
    'messages-escalation',
    'postgres-dead-holders',
    'postgres-fence',
    'postgres-guards',
    'postgres-strangers',
    'postgres-transactions',
    'progress',
    'recovery-stats',
    'state',
    'tasks',
  ],
}

/**
 * The conformance files that `npm test` runs on SQLite only. They are long, and about what happens in the process: how
 * many leases it keeps, how its methods treat bad arguments, how many recoveries it remembers.
 * `npm run test:postgres` runs them too.
 */
const onSqliteOnly = ['hostile-calls', 'lease-room', 'retention-recoveries']

/** The files of a project, as vitest globs. A quick run includes only some of them. */
export function filesOf({ suite, engine }, isQuick) {
  const names = (isQuick && suite === 'conformance' && smoke[engine]) || ['**/*']
  return names.map((name) => `test/${suite}/${name}.test.ts`)
}

/** Of those, the files that a quick run leaves out. */
export function filesLeftOut({ suite, engine }, isQuick) {
  const names = isQuick && suite === 'conformance' && engine !== 'sqlite' ? onSqliteOnly : []
  return names.map((name) => `test/${suite}/${name}.test.ts`)
}

/** Suites whose tests run unchanged on every engine. */
export const engineSuites = ['conformance', 'model']

const suffixes = { sqlite: '', 'postgres-14': '-pg14', 'postgres-18': '-pg18', postgres: '-pg' }

/** Every possible project of a suite. */
export function projectsOf(suite) {
  const engines = engineSuites.includes(suite) ? availableEngines() : ['sqlite']
  return engines.map((engine) => ({ name: `${suite}${suffixes[engine]}`, suite, engine }))
}

/** The projects to run when none is named: engine suites on the chosen engines, and every other suite once. */
export function chosenProjects(suites) {
  const engines = chosenEngines()
  return suites
    .flatMap(projectsOf)
    .filter(({ suite, engine }) => !engineSuites.includes(suite) || engines.includes(engine))
}

function chosenEngines() {
  const listed = process.env.HOLDFAST_TEST_ENGINES?.split(',').map((name) => name.trim()) ?? defaultEngines
  const unknown = listed.filter((name) => !(name in suffixes))
  if (unknown.length > 0) {
    throw new Error(
      `HOLDFAST_TEST_ENGINES: no engine ${unknown.join(', ')}; there are ${Object.keys(suffixes).join(', ')}`,
    )
  }
  if (listed.includes('postgres') && !hasServer()) {
    throw new Error('the engine postgres is your own server: set HOLDFAST_TEST_POSTGRES_URL')
  }
  const wanted = hasServer() ? [...listed, 'postgres'] : listed
  return availableEngines().filter((name) => wanted.includes(name))
}

function availableEngines() {
  return hasServer() ? ['sqlite', 'postgres'] : ['sqlite', 'postgres-14', 'postgres-18']
}

function hasServer() {
  return Boolean(process.env.HOLDFAST_TEST_POSTGRES_URL)
}
