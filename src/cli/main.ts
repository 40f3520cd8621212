#!/usr/bin/env node
/** The command line. Loads only what the command at hand needs. */
import { readFileSync } from 'node:fs'

function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

const args = process.argv.slice(2)
if (args.length === 1 && (args[0] === '--version' || args[0] === '-V')) {
  process.stdout.write(`${version()}\n`)
} else {
  const { run } = await import('./program.ts')
  process.exitCode = await run(args, version())
}
