/** What somebody else does to a folder in the very moment in which a function of `node:fs` works on it. */
import { renameSync, rmSync, symlinkSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { onTestFinished } from 'vitest'

/** Lets modules that imported the spied function by its name call the spy too, until the test ends. */
export function everywhere<Spy extends { mockRestore(): unknown }>(spy: Spy): Spy {
  syncBuiltinESMExports()
  onTestFinished(() => {
    spy.mockRestore()
    syncBuiltinESMExports()
  })
  return spy
}

/** Does something while a link to another folder stands in a folder's place. */
export function whileLinked<Result>(folder: string, to: string, act: () => Result): Result {
  const aside = `${folder}-aside`
  renameSync(folder, aside)
  symlinkSync(to, folder)
  try {
    return act()
  } finally {
    rmSync(folder)
    renameSync(aside, folder)
  }
}
