/** What is mounted where, read from text as the kernel writes it. */
import { describe, expect, test } from 'vitest'
import { networkProgram } from '../../src/host/file-system.ts'
import { mountOf, parseMounts } from '../../src/host/mounts.ts'

const text = String.raw`22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
40 27 0:40 / /home/me/far\040away rw,nosuid,nodev shared:9 - fuse.sshfs me@host:/srv rw,user_id=1000
41 27 0:41 /sub /home/me rw - virtiofs shared rw
42 27 0:42 / /home/me/odd\134name\011x rw - fuse.rclone drive: rw
43 27 0:43 / /mnt rw - fuse s3fs rw
44 27 0:44 / /mnt rw - fuse.mergerfs a:b rw
truncated line
45 27 0:45 / /home/me/far rw - ext4 /dev/vdb rw`
const mounts = parseMounts(text)

test('mount points are read as spelled, with octal escapes turned back into bytes [S5b-6]', () => {
  expect(mounts.map(({ point }) => point)).toEqual([
    ...['/proc', '/', '/home/me/far away', '/home/me', '/home/me/odd\\name\tx', '/mnt', '/mnt'],
    '/home/me/far',
  ])
  expect(mounts[2]).toEqual({ point: '/home/me/far away', type: 'fuse.sshfs', source: 'me@host:/srv' })
})

test.each([
  ['/home/me/far away/store.db', 'fuse.sshfs'],
  ['/home/me/far away', 'fuse.sshfs'],
  ['/home/me/far awayish', 'virtiofs'],
  ['/home/me/far/store.db', 'ext4'],
  ['/home/other', 'ext4'],
  ['/mnt/x', 'fuse.mergerfs'],
])('%s is on the longest mount point above it, and there on the last mount: %s [S5b-6]', (path, type) => {
  expect(mountOf(path, mounts)?.type).toBe(type)
  expect(mountOf(path, [])).toBeNull()
})

describe('a program behind FUSE', () => {
  test.each([
    ['fuse.sshfs', 'me@host:/srv', 'sshfs'],
    ['fuse.rclone', 'drive:', 'rclone'],
    ['fuse.s3fs', 's3fs', 's3fs'],
    ['fuse.glusterfs', 'host:/volume', 'glusterfs'],
    ['fuse', 's3fs', 's3'],
    ['fuse', 'mountpoint-s3', 'mountpoint-s3'],
    ['fuse', 'https://me:secret@host/dav', 'FUSE'],
  ])('that stores its files elsewhere is recognized: %s of %s [S5b-6]', (type, source, name) => {
    expect(networkProgram({ point: '/mnt', type, source })).toBe(name)
  })

  test.each([
    ['virtiofs', 'shared'],
    ['fuse.fuse-overlayfs', 'fuse-overlayfs'],
    ['fuse.gocryptfs', '/home/me/cipher'],
    ['fuseblk', '/dev/sdb1'],
    ['fuse', '/dev/fuse'],
    ['fuse.osxfs', 'osxfs'],
  ])('that may store them here is not refused: %s of %s [S5b-6]', (type, source) => {
    expect(networkProgram({ point: '/mnt', type, source })).toBeNull()
    expect(networkProgram(null)).toBeNull()
  })
})
