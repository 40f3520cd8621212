#!/usr/bin/env node
/** The command line. Loads only what the command at hand needs. */
import { readFileSync } from 'node:fs'
import nodeModule from 'node:module'
import { compileCacheFolder } from './compile-cache.ts'
import { guardOutput } from './output.ts'

function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

guardOutput()
const args = process.argv.slice(2)
if (args.length === 1 && (args[0] === '--version' || args[0] === '-V')) {
  process.stdout.write(`${version()}\n`)
} else {
  // From Node 22 on: what was compiled once is not compiled again.
  const { enableCompileCache } = nodeModule as { enableCompileCache?: (folder: string) => void }
  const cache = enableCompileCache ? compileCacheFolder(process.env) : null
  if (cache !== null) enableCompileCache?.(cache)
  const [{ main }, { processIo }] = await Promise.all([import('./program.ts'), import('./io.ts')])
  process.exitCode = await main(args, processIo(), version())
  // A shell waits for its completions; a server that does not answer must not keep it waiting.
  if (args[0] === 'complete') process.stdout.write('', () => process.exit())
}
