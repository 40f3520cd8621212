/** A fenced file among strangers: who can write to its `.fence` folder decides which tokens pass. */
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import promises from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { writeFileFenced } from 'holdfast/fences'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { everywhere } from '../support/planted.ts'
import { noStranger, stranger } from '../support/stranger.ts'

const grant = (token: number) => ({ resource: 'lock:deploy', token })

function aFile(): { folder: string; file: string; fence: string } {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-fence-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return { folder, file: join(folder, 'config.json'), fence: join(folder, 'config.json.fence') }
}

function modeOf(path: string): string {
  return (statSync(path).mode & 0o7777).toString(8)
}

describe('a fenced file', () => {
  test('keeps its permissions, and no setuid or setgid bit [S5d-8]', async () => {
    const { file } = aFile()
    writeFileSync(file, 'old')
    chmodSync(file, 0o6751)

    await writeFileFenced(file, 'new', grant(1))

    expect([modeOf(file), readFileSync(file, 'utf8')]).toEqual(['751', 'new'])
  })

  test('has a fence that is closed to others, even in an open folder [S5d-8]', async () => {
    const { folder, file, fence } = aFile()
    chmodSync(folder, 0o777)

    await writeFileFenced(file, 'new', grant(1))

    expect([modeOf(fence), modeOf(join(fence, 'token.json'))]).toEqual(['700', '600'])
  })

  test('in a shared folder has a fence for its group [S5d-8]', async () => {
    const { folder, file, fence } = aFile()
    chmodSync(folder, 0o2770)
    await writeFileFenced(file, 'new', grant(1))
    const modes = [modeOf(fence), modeOf(join(fence, 'token.json'))]
    if (noStranger === null) chownSync(join(fence, 'token.json'), stranger.uid, statSync(folder).gid)

    await writeFileFenced(file, 'newer', grant(2))

    expect(modes).toEqual(['2770', '660'])
    expect(readFileSync(file, 'utf8')).toBe('newer')
  })

  test('opens no other folder through a link in place of the new fence [S5d-8]', async () => {
    const { folder, file, fence } = aFile()
    chmodSync(folder, 0o2770)
    const own = join(folder, 'own')
    mkdirSync(own, { mode: 0o700 })
    const before = modeOf(own)
    const made = everywhere(
      vi.spyOn(promises, 'mkdir').mockImplementationOnce(async () => symlinkSync(own, fence) as never),
    )

    const written = await writeFileFenced(file, 'new', grant(1)).catch((error) => error.code)

    expect(made).toHaveBeenCalledOnce()
    expect([modeOf(own), written]).toEqual([before, expect.any(String)])
  })
})

describe('a fence prepared by somebody else', () => {
  const attacks: Readonly<Record<string, (fence: string) => void>> = {
    'that others can write to': (fence) => mkdirSync(fence) ?? chmodSync(fence, 0o777),
    'that is a link': (fence) => {
      mkdirSync(`${fence}.elsewhere`)
      symlinkSync(`${fence}.elsewhere`, fence)
    },
    'whose token is a link': (fence) => {
      mkdirSync(fence, 0o700)
      writeFileSync(`${fence}.token`, '{"resource":"lock:deploy","token":1}')
      symlinkSync(`${fence}.token`, join(fence, 'token.json'))
    },
    'whose lock is a file': (fence) => {
      mkdirSync(fence, 0o700)
      writeFileSync(join(fence, 'lock'), '')
    },
    'with something of theirs in it': (fence) => {
      mkdirSync(fence, 0o700)
      writeFileSync(join(fence, 'notes.heir.txt'), '')
    },
  }

  test.each(Object.entries(attacks))('%s is refused, and the file left alone [S5d-8]', async (_, prepare) => {
    const { file, fence } = aFile()
    writeFileSync(file, 'old')
    prepare(fence)

    await expect(writeFileFenced(file, 'new', grant(1))).rejects.toMatchObject({ code: 'FORBIDDEN' })
    expect(readFileSync(file, 'utf8')).toBe('old')
  })

  test.skipIf(noStranger).each([
    ['the folder', ''],
    ['the token', 'token.json'],
  ])('that belongs to another user is refused: %s [S5d-8]', async (_, name) => {
    const { file, fence } = aFile()
    await writeFileFenced(file, 'old', grant(1))
    chownSync(join(fence, name), stranger.uid, stranger.gid)

    await expect(writeFileFenced(file, 'new', grant(2))).rejects.toMatchObject({ code: 'FORBIDDEN' })
    expect(readFileSync(file, 'utf8')).toBe('old')
  })

  test.skipIf(noStranger)('is refused when a group of others can write to it [S5d-8]', async () => {
    const { file, fence } = aFile()
    mkdirSync(fence)
    chownSync(fence, 0, stranger.gid)
    chmodSync(fence, 0o775)

    await expect(writeFileFenced(file, 'new', grant(1))).rejects.toMatchObject({ code: 'FORBIDDEN' })
  })

  // With a second user the tests run as root, whose group has no other members.
  test.skipIf(noStranger)(
    'is used when only the same user and its own group can write to it [S5d-8]',
    async () => {
      const { file, fence } = aFile()
      mkdirSync(fence)
      chmodSync(fence, 0o775)

      await writeFileFenced(file, 'new', grant(1))

      expect(readFileSync(file, 'utf8')).toBe('new')
    },
  )
})
