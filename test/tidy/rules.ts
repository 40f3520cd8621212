/**
 * The rules of the tidy test. Each takes files and returns one line per problem; an empty list means the
 * promise holds. They read text, not a syntax tree: a false alarm costs a rename, a parser costs a
 * dependency.
 */

import { posix } from 'node:path'

export interface File {
  /** From the repository root, with forward slashes. */
  readonly path: string
  readonly text: string
}

type Rule = (files: readonly File[]) => string[]

const vocabulary = [
  'errors',
  'error-codes',
  'error-facts',
  'options',
  'issue',
  'logger',
  'log-lines',
  'lazily',
  'abort',
]
const belowInterfaces = [
  ...vocabulary,
  'domain',
  'operations',
  'port',
  'engines',
  'runtime',
  'host',
  'environment',
  'delivery',
]

/** Who may import whom; a layer may always import itself. */
const arrows: Record<string, readonly string[]> = {
  index: [...belowInterfaces, 'handle', 'copy', 'fences', 'import'],
  testing: [...belowInterfaces, 'handle', 'index'],
  // What a program holds: everything it calls, over the operations.
  handle: belowInterfaces,
  // Opens two engines at once and carries rows between them; recovers the source first.
  copy: [...vocabulary, 'port', 'engines', 'domain', 'environment', 'host', 'handle'],
  // The command line starts the others, so it alone may reach across. It needs the domain's words (names of queues,
  // nearest names), not its rules.
  cli: [
    ...vocabulary,
    'handle',
    'domain',
    'operations',
    'runtime',
    'copy',
    'index',
    'import',
    'host',
    'environment',
  ],
  // Reads SQLite files with the engine's driver: two copies of SQLite in one process drop each other's locks.
  import: [...vocabulary, 'operations', 'handle', 'index', 'domain', 'engines'],
  delivery: [...vocabulary, 'operations', 'domain', 'environment'],
  // The file fence locks among processes, so it judges them.
  fences: [...vocabulary, 'domain', 'environment', 'host'],
  // The caretaker thread opens an engine of its own.
  runtime: [...vocabulary, 'operations', 'domain', 'port', 'engines', 'host', 'environment', 'delivery'],
  operations: [...vocabulary, 'domain', 'port'],
  port: [...vocabulary, 'domain', 'environment'],
  engines: [...vocabulary, 'port', 'operations', 'domain', 'environment', 'host'],
  host: ['environment', 'errors', 'domain'],
  options: ['errors', 'issue', 'domain', 'environment', 'logger', 'delivery'],
  // The one function that makes foreign text harmless.
  logger: ['domain', 'log-lines'],
  'log-lines': [],
  issue: ['domain'],
  lazily: [],
  abort: [],
  environment: ['abort', 'errors', 'domain'],
  domain: ['errors'],
  // A message may be printed by whoever does not catch it.
  errors: ['domain', 'error-codes', 'error-facts'],
  'error-codes': [],
  'error-facts': [],
}

/** Layers that use no npm package, and the node modules they may use (null: all of them). */
const plainLayers: Record<string, readonly string[] | null> = { domain: ['node:assert'] }

const entryPoints = [
  'src/index.ts',
  'src/fences/index.ts',
  'src/testing.ts',
  'src/cli/main.ts',
  'src/cli/reference.ts',
]

export const importsFollowTheArrows: Rule = (files) =>
  inSource(files).flatMap((file) => {
    const layer = layerOf(file.path)
    const allowed = arrows[layer]
    if (!allowed) return [`${file.path}: the layer ${layer} has no arrows; add it to the table in rules.ts`]
    return importsOf(file).flatMap((specifier) => {
      if (!specifier.startsWith('.')) return plainLayerProblems(file, layer, specifier)
      const target = layerOf(resolveImport(file.path, specifier))
      const isAllowed = target === layer || allowed.includes(target)
      return isAllowed ? [] : [`${file.path}: ${layer} may not import ${target} (${specifier})`]
    })
  })

/**
 * No file needs itself, not even through others or for a type. What is imported with `import()` is loaded later, on
 * purpose, and does not count.
 */
export const importsMakeNoCircle: Rule = (files) => {
  const sources = new Map(inSource(files).map((file) => [file.path, file]))
  const done = new Set<string>()
  const circles: string[] = []
  const follow = (path: string, trail: readonly string[]) => {
    if (trail.includes(path)) circles.push([...trail.slice(trail.indexOf(path)), path].join(' → '))
    const file = sources.get(path)
    if (!file || done.has(path) || trail.includes(path)) return
    for (const specifier of staticImportsOf(file)) {
      if (specifier.startsWith('.')) follow(resolveImport(path, specifier), [...trail, path])
    }
    done.add(path)
  }
  for (const path of sources.keys()) follow(path, [])
  return circles
}

const drivers: Record<string, RegExp> = {
  'src/engines/sqlite/': /['"](?:@photostructure\/sqlite|node:sqlite)['"]/,
  'src/engines/postgres/': /['"]pg(?:-[a-z]+)?['"]/,
}

export const driversStayInTheirEngine: Rule = (files) =>
  Object.entries(drivers).flatMap(([folder, driver]) =>
    findLines(
      inSource(files).filter(({ path }) => !path.startsWith(folder)),
      driver,
      withoutComments,
    ),
  )

export const dependenciesHaveOneFolder: Rule = (files) => {
  const foldersByName = new Map<string, Set<string>>()
  for (const file of inSource(files)) {
    for (const specifier of importsOf(file)) {
      if (isBuiltIn(specifier) || specifier.startsWith('.')) continue
      const name = specifier.match(/^(?:@[^/]+\/)?[^/]+/)?.[0] ?? specifier
      const folders = foldersByName.get(name) ?? new Set()
      foldersByName.set(name, folders.add(file.path.split('/')[1] ?? ''))
    }
  }
  foldersByName.delete('zod')
  return [...foldersByName]
    .filter(([, folders]) => folders.size > 1)
    .map(([name, folders]) => `${name} is imported in ${[...folders].sort().join(' and ')}`)
}

export const domainIsPure: Rule = (files) =>
  findLines(
    files.filter(({ path }) => path.startsWith('src/domain/')),
    /\b(?:Date\.now|new Date\(|Math\.random|setTimeout|setInterval|performance\.now|process\.hrtime|async |await )/,
    withoutQuotes,
  )

export const timeComesThroughTheEnvironment: Rule = (files) => {
  const edge = (path: string) => path.startsWith('src/host/') || path === 'src/testing.ts'
  const rest = inSource(files).filter(({ path }) => !edge(path))
  // Not a socket's own limit, `stream.setTimeout`: only the socket knows when its last byte moved.
  const clock =
    /\b(?:(?<!\bstream\.|#stream\.)setTimeout\b|setInterval\b|Date\.now\b|new Date\(\)|Math\.random\b|process\.hrtime\b|performance\.now\b)/
  return [
    ...findLines(rest, clock, withoutQuotes),
    ...findLines(rest, /['"](?:node:)?timers(?:\/promises)?['"]/, withoutComments),
  ]
}

/** Whatever is written elsewhere would not be escaped. */
const writers = ['print', 'live-screen', 'progress-line', 'output', 'main', 'program', 'io']

export const outputGoesThroughItsWriters: Rule = (files) =>
  findLines(
    inSource(files).filter(
      ({ path }) => path.startsWith('src/cli/') && !writers.some((name) => path === `src/cli/${name}.ts`),
    ),
    /\bio\.(?:out|err)\(|\bstd(?:out|err)\.write\(|\bconsole\./,
    withoutComments,
  )

export const sqlStaysInItsFolders: Rule = (files) => {
  const start =
    /^\s*(?:select\s(?=[\s\S]*\bfrom\s|\s*\w+\()|with\s[\s\S]+\bselect\s|insert\s(?:or\s\w+\s)?into\s|update\s+\S+\s+set\s|delete\sfrom\s|create\s(?:unique\s)?(?:table|index)\s|pragma\s)/
  return inSource(files)
    .filter(({ path }) => !/^src\/(?:engines|import|fences)\//.test(path))
    .flatMap(({ path, text }) =>
      [...withoutComments(text).matchAll(token)]
        .filter(([literal]) => start.test(literal.slice(1)))
        .map(([literal]) => `${path}: SQL: ${literal.slice(0, 60)}`),
    )
}

export const noEscapeHatches: Rule = (files) => [
  ...findLines(files, /:\s*any\b|\bas any\b|<any>|\.only\(/, withoutQuotes),
  // The first two live in comments, where the compiler reads them.
  ...findLines(files, /@ts-ignore|@ts-nocheck|\b(?:TODO|FIXME|XXX)\b/, (text) => text),
]

/** A name that is compared, or that begins a list of names. */
const comparedName =
  /(?:[=!]==\s*|\bcase\s+|\.(?:has|includes|indexOf)\(\s*|\[\s*)'([a-z]+\.\w+)'|'([a-z]+\.\w+)'\s*[=!]==/g

/** Where a name decides nevertheless, and why. */
const toldByName = new Set([
  // Its own claims: this method alone makes both, and only one of them may return an unfinished item.
  'src/handle/queue/item-claims.ts queue.nextWithLock',
])

/**
 * What an operation is, its row says. Code that compares its name, or looks it up in a list of names, would be
 * forgotten when the next operation of that kind is added. The rules of the domain know no operations: what looks like
 * one there is the kind of an event.
 */
export const operationsAreNotToldByName: Rule = (files) => {
  const names = new Set(
    files
      .filter(({ path }) => path.startsWith('src/operations/'))
      .flatMap(({ text }) => [...text.matchAll(/^ *name: '([a-z]+\.\w+)',$/gm)].map(([, name]) => name)),
  )
  return inSource(files)
    .filter(({ path }) => !path.startsWith('src/domain/'))
    .flatMap(({ path, text }) => {
      const found = withoutComments(text).matchAll(comparedName)
      const told = [...found].map(([, first, second]) => first ?? second).filter((name) => names.has(name))
      return told.filter((name) => !toldByName.has(`${path} ${name}`)).map((name) => `${path}: ${name}`)
    })
}

/**
 * What a statement does, whoever makes it says on the `Query`. Code that searches its text would be forgotten when the
 * text changes. Text of another kind, such as JSON, is told apart by comparing it with a literal of that kind.
 */
export const statementsAreNotToldByText: Rule = (files) =>
  findLines(
    inSource(files).filter(({ path }) => path.startsWith('src/engines/')),
    /\b(?:text|sql)\.(?:includes|startsWith|endsWith|match|search|indexOf)\(|\.(?:text|sql)\s*[=!]==|[=!]==\s*\w+\.(?:text|sql)\b|\.test\([\w.#]*\b(?:query|statement)\b/,
    withoutComments,
  )

export const everySourceFileIsReached: Rule = (files) => {
  const sources = new Map(inSource(files).map((file) => [file.path, file]))
  const reached = new Set<string>()
  const waiting = [...entryPoints]
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const file = sources.get(path)
    if (!file || reached.has(path)) continue
    reached.add(path)
    const threads = [
      ...withoutComments(file.text).matchAll(/new URL\(\s*['"](\.[^'"]+)['"]\s*,\s*import\.meta\.url/g),
    ]
    for (const specifier of [...importsOf(file), ...threads.map(([, found]) => found ?? '')]) {
      waiting.push(resolveImport(path, specifier))
    }
  }
  return [...sources.keys()]
    .filter((path) => !reached.has(path))
    .map((path) => `${path}: no entry point reaches it`)
}

export const testNamesAreUnique: Rule = (files) =>
  files
    .filter(({ path }) => path.endsWith('.test.ts'))
    .flatMap(({ path, text }) => {
      const titles = [...withoutComments(text).matchAll(/\b(?:test|it)(?:\.\w+)*\(\s*(['"`])(.*?)\1/g)]
      const names = titles.map(([, , name]) => name)
      return names
        .filter((name, index) => names.indexOf(name) !== index)
        .map((name) => `${path}: twice: ${name}`)
    })

/**
 * Each scenario of suites A to F of the checklist has a body among those that every engine runs: in a file of a suite
 * with all engines that is not one engine's own, and none of these files asks which engine it is on or skips anything.
 */
export const suitesRunOnEveryEngine: Rule = (files) => {
  const shared = files.filter(({ path }) => /^test\/(?:conformance|model)\/(?!sqlite-|postgres-)/.test(path))
  const bodies = shared.map(({ text }) => text).join('\n')
  const checklist = files.find(({ path }) => path === 'docs/checklist.md')?.text ?? ''
  const scenarios = [...checklist.matchAll(/^## Suite [A-F]:.*\n(?:(?!## ).*\n?)*/gm)]
    .flatMap(([section]) => [...section.matchAll(/^\| *([A-Z]+-\d+) *\|/gm)])
    .map(([, number]) => number as string)
  return [
    ...scenarios
      .filter((number) => !bodies.includes(`[${number}]`))
      .map((number) => `${number} has no body that every engine runs`),
    ...findLines(shared, /\b(?:skip|skipIf|runIf|todo)\(|HOLDFAST_TEST_ENGINES/, withoutComments),
  ]
}

export const noMachinePaths: Rule = (files) =>
  findLines(
    files,
    /\/(?:work|home|root)\/|registry\.[\w-]+\.\w|:\/\/[^\s/]*(?:registry|verdaccio|artifactory)/,
    (text) => text,
  )

/** A page that says which test shows a promise must name one that is there. */
export const namedTestsExist: Rule = (files) => {
  const paths = new Set(files.map(({ path }) => path))
  return files
    .filter(({ path }) => path.endsWith('.md'))
    .flatMap(({ path, text }) =>
      [...text.matchAll(/\btest\/[\w./-]+\.test\.ts\b/g)]
        .filter(([name]) => !paths.has(name))
        .map(([name]) => `${path} names ${name}`),
    )
}

/** A list to read, not a rule. */
export function longestFiles(files: readonly File[]): string[] {
  return longest(files.map(({ path, text }) => ({ name: path, lines: text.split('\n').length - 1 })))
}

/** The formatter has put the end of a function at the indentation of its beginning. */
export function longestFunctions(files: readonly File[]): string[] {
  const start = /^( *)(?:export |default |static |async |override )*(?:function\*? )?([#\w]+)(?:<.*>)?\(.*\{$/
  const arrow = /^( *)(?:export )?const (\w+)\b.*=>\s*\{?$/
  const sizes = files.flatMap(({ path, text }) => {
    const lines = text.split('\n')
    return lines.flatMap((line, index) => {
      const found = line.match(start) ?? line.match(arrow)
      if (!found || /^(?:if|for|while|switch|catch)$/.test(found[2] ?? '')) return []
      const end = lines.findIndex((later, at) => at > index && later.startsWith(`${found[1]}}`))
      return end === -1 ? [] : [{ name: `${path} ${found[2]}`, lines: end - index + 1 }]
    })
  })
  return longest(sizes)
}

function longest(sizes: { name: string; lines: number }[]): string[] {
  const sorted = sizes.toSorted((left, right) => right.lines - left.lines)
  return sorted.slice(0, 10).map(({ name, lines }) => `${String(lines).padStart(5)}  ${name}`)
}

function plainLayerProblems(file: File, layer: string, specifier: string): string[] {
  const modules = plainLayers[layer]
  if (modules === undefined) return []
  const isAllowed = modules === null ? isBuiltIn(specifier) : modules.includes(specifier)
  return isAllowed ? [] : [`${file.path}: ${layer} may not import ${specifier}`]
}

function inSource(files: readonly File[]): File[] {
  return files.filter(({ path }) => path.startsWith('src/') && path.endsWith('.ts'))
}

/** The first part of the path below src/: a folder, or a file without its ending. */
function layerOf(path: string): string {
  return (
    path
      .replace(/^src\//, '')
      .replace(/\.ts$/, '')
      .split('/')[0] ?? ''
  )
}

function importsOf(file: File): string[] {
  const pattern = /(?:\bfrom\s+|\bimport\s+|\bimport\(\s*|\brequire\(\s*)['"]([^'"\n]+)['"]/g
  return [...withoutComments(file.text).matchAll(pattern)].map(([, specifier]) => specifier ?? '')
}

function staticImportsOf(file: File): string[] {
  const pattern = /(?:\bfrom\s+|\bimport\s+)['"]([^'"\n]+)['"]/g
  return [...withoutComments(file.text).matchAll(pattern)].map(([, specifier]) => specifier ?? '')
}

function resolveImport(from: string, specifier: string): string {
  return posix.join(posix.dirname(from), specifier).replace(/\.js$/, '.ts')
}

function isBuiltIn(specifier: string): boolean {
  return specifier.startsWith('node:')
}

/** Comments first, so that a quote inside one begins no string; then the three kinds of literals. */
const token = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\[\s\S]|[^`\\])*`/g

function withoutComments(text: string): string {
  return text.replace(token, (found) => (found.startsWith('/') ? blank(found) : found))
}

/** Templates stay: what they enclose in `${}` is code. */
function withoutQuotes(text: string): string {
  return text.replace(token, (found) => (found.startsWith('`') ? found : blank(found)))
}

/** Keeps the line breaks, so that line numbers stay true. */
function blank(text: string): string {
  return text.replace(/[^\n]/g, ' ')
}

function findLines(files: readonly File[], pattern: RegExp, view: (text: string) => string): string[] {
  return files.flatMap(({ path, text }) =>
    view(text)
      .split('\n')
      .flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  )
}
