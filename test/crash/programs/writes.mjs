/**
 * Writes a file under tokens, and can be made to die or freeze before the nth call into the file system, also more
 * than once:
 *
 *   writes.mjs <file> <tokens, by commas> [<n, by commas> <signal>]
 *
 * Prints one line per write: the token, and `written` or the code of the refusal.
 */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { writeFileFenced } from 'holdfast/fences'

const [file, tokens, steps, signal] = process.argv.slice(2)

if (steps !== undefined) await trap(steps.split(',').map(Number), signal)
for (const token of tokens.split(',').map(Number)) {
  const result = await writeFileFenced(
    file,
    contentOf(token),
    { resource: 'r', token },
    { waitMs: 15_000 },
  ).then(
    () => 'written',
    (error) => error.code,
  )
  console.log(token, result)
}

/** Long enough that half of it would be seen. */
function contentOf(token) {
  return `${token}\n`.repeat(20_000)
}

async function trap(stepsOfTrap, signalOfTrap) {
  let step = 0
  const wrap = (holder, name) => {
    const original = holder[name]
    holder[name] = function (...args) {
      if (stepsOfTrap.includes(++step)) process.kill(process.pid, signalOfTrap)
      return original.apply(this, args)
    }
  }
  const handle = await fs.promises.open(process.execPath)
  for (const name of ['chmod', 'writeFile', 'sync']) wrap(Object.getPrototypeOf(handle), name)
  await handle.close()
  for (const name of [
    'mkdir',
    'open',
    'readFile',
    'readdir',
    'readlink',
    'rename',
    'rm',
    'stat',
    'symlink',
  ]) {
    wrap(fs.promises, name)
  }
  syncBuiltinESMExports()
}
