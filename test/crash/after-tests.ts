/** Ends what tests started. A setup file, because files share the modules of their process, and hooks belong to one file. */
import { afterAll, afterEach } from 'vitest'
import { endFile, endTest } from './support.ts'

afterEach(endTest)
afterAll(endFile)
