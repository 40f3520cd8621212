/** Which store a command works on, and one operation on it. A command line's claims are manual leases. */
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { open } from '../holdfast.ts'

export interface GlobalOptions {
  readonly store?: string
  readonly agent?: string
  readonly namespace?: string
}

const defaultStore = '.holdfast/store.db'

export async function execute(options: GlobalOptions, operation: string, input: unknown): Promise<unknown> {
  const url = options.store ?? process.env.HOLDFAST_URL ?? makeDefaultStore()
  const hf = await open(url, {
    background: false,
    recovery: { onOpen: false },
    ...(options.agent === undefined ? {} : { agent: options.agent }),
    ...(options.namespace === undefined ? {} : { namespace: options.namespace }),
  })
  try {
    return await hf.execute(operation, input)
  } finally {
    await hf.close()
  }
}

function makeDefaultStore(): string {
  mkdirSync(dirname(defaultStore), { recursive: true })
  return defaultStore
}
