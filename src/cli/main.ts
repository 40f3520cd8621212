#!/usr/bin/env node
/** Entry point of the command line. Loads only what the current command needs. */
import nodeModule from 'node:module'
import { packageVersion } from '../host/package-version.ts'
import { compileCacheFolder } from './compile-cache.ts'
import { guardOutput } from './output.ts'

guardOutput()
const args = process.argv.slice(2)
if (args.length === 1 && (args[0] === '--version' || args[0] === '-V')) {
  process.stdout.write(`${packageVersion()}\n`)
} else {
  // From Node 22 on: reuse code compiled by an earlier run.
  const { enableCompileCache } = nodeModule as { enableCompileCache?: (folder: string) => void }
  const cache = enableCompileCache ? compileCacheFolder(process.env) : null
  if (cache !== null) enableCompileCache?.(cache)
  const [{ main }, { processIo }] = await Promise.all([import('./program.ts'), import('./io.ts')])
  process.exitCode = await main(args, processIo(), packageVersion())
  // The shell is waiting for completions; an unresponsive server must not hold it up.
  if (args[0] === 'complete') process.stdout.write('', () => process.exit())
}
