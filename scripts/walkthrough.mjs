// Prints the source files whose functions one claim, one completion, one lock, one message and one recovery call.
//
//   node scripts/walkthrough.mjs            the counts
//   node scripts/walkthrough.mjs --files    and the files, in the order of their names
//
// It builds src/ without bundling, opens a SQLite store, makes each call once to warm up, and then counts what
// V8 sees called in the main thread during a second call. Work in other threads is not counted.

import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const source = join(root, 'src')
// Below the root, so that packages are found.
const folder = mkdtempSync(join(root, '.dist-walkthrough-'))

try {
  await build()
  const { open } = await import(pathToFileURL(join(folder, 'index.js')).href)
  await walk(open)
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** One file per source file. The caretaker's thread is started by path, so it is an entry too. */
async function build() {
  const bundle = await rolldown({
    input: [join(source, 'index.ts'), join(source, 'runtime/caretaker/caretaker-thread.ts')],
    platform: 'node',
    external: [/^[^./]/],
  })
  await bundle.write({ dir: folder, format: 'esm', preserveModules: true, preserveModulesRoot: source })
  await bundle.close()
  for (const path of readdirSync(source, { recursive: true })) {
    if (!path.endsWith('.sql')) continue
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    cpSync(join(source, path), join(folder, path))
  }
}

async function walk(open) {
  const hf = await open(join(folder, 'store.db'), {
    agent: 'alice',
    logger: false,
    recovery: false,
    redelivery: false,
  })
  const queue = hf.queue('builds')
  const inspector = new Session()
  inspector.connect()
  await inspector.post('Profiler.enable')
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })

  const steps = {
    claim: { before: () => queue.add(1), act: () => queue.next() },
    completion: { before: () => claimOne(queue), act: ({ item }) => queue.complete(item.id) },
    lock: { before: async () => {}, act: () => hf.locks.acquireLock(`lock-${Math.random()}`) },
    message: {
      before: async () => {},
      act: async () => {
        const { message } = await hf.messages.sendWithAck('alice', { content: 'hello' })
        await hf.messages.receiveAck(message.id)
      },
    },
    recovery: { before: () => loseOne(queue), act: () => hf.recovery.detectAndRecoverStale() },
  }
  for (const [name, { before, act }] of Object.entries(steps)) {
    await act(await before())
    const given = await before()
    await inspector.post('Profiler.takePreciseCoverage')
    await act(given)
    print(name, called(await inspector.post('Profiler.takePreciseCoverage')))
  }
  inspector.disconnect()
  await hf.close()
}

async function claimOne(queue) {
  await queue.add(1)
  return queue.next()
}

/** A claim that nobody renews, and that has lapsed. */
async function loseOne(queue) {
  await queue.add(1)
  const { item } = await queue.next({ renew: false, leaseMs: 1 })
  while ((await queue.get(item.id)).lease.expiresInMs > -1) await new Promise((done) => setTimeout(done, 5))
}

/** The files with a function that was called, not counting the module's own body. */
function called({ result }) {
  const prefix = pathToFileURL(folder).href
  return result
    .filter(({ url }) => url.startsWith(`${prefix}/`) && !url.includes('node_modules'))
    .filter(({ functions }) =>
      functions.some(({ functionName, ranges }) => functionName !== '' && ranges[0].count > 0),
    )
    .map(({ url }) => url.slice(prefix.length + 1).replace(/\.js$/, '.ts'))
    .sort()
}

function print(name, files) {
  console.log(`${name}: ${files.length} files`)
  if (process.argv.includes('--files')) console.log(files.map((file) => `  ${file}`).join('\n'))
}
