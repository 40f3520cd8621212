/**
 * The record of which process probes, for one store and for processes that can judge each other: same boot, pid
 * namespace, host name, user and runtime folder. It is in memory, or the system writes it back whenever it likes: after
 * a machine crash it is of no use to anybody, so nobody waits for the disk. Only its own user can write it. It is read
 * and written in place and never locked: the loser of a race finds out at its next look.
 */
import { createHash } from 'node:crypto'
import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ProcessIdentity } from '../domain/instance.ts'
import { fieldsIn } from '../domain/json-text.ts'
import type { ProberRecord } from '../domain/prober.ts'
import type { ProberSeat } from '../environment.ts'
import { isPrivateFolder, noFollowFlags } from './access.ts'
import { ProberSocket } from './prober-socket.ts'
import { WatchedProcess } from './process.ts'
import { makeFolder, removeFile } from './runtime-folder.ts'

/** Longer than any record, and always written in full, so that a shorter record leaves nothing of a longer one. */
const recordBytes = 512

export class ProberFile implements ProberSeat {
  readonly #folders: () => readonly string[]
  readonly #name: string
  #path: string | null = null
  readonly #socket = new ProberSocket()
  #watched: { pid: number; startTime: string | null; process: WatchedProcess } | null = null

  /** `store`: tells it apart from every other store on this machine. */
  constructor(folders: () => readonly string[], self: ProcessIdentity, store: string) {
    const { bootId, pidNamespace, hostName } = self
    const domain = [bootId, pidNamespace, hostName, store].join('\n')
    this.#folders = folders
    this.#name = `prober-${createHash('sha1').update(domain).digest('hex').slice(0, 16)}`
  }

  /** Null if there is none, or it cannot be read. */
  read(): ProberRecord | null {
    const { O_RDONLY } = constants
    return this.#withFile(O_RDONLY, (file) => {
      const bytes = Buffer.alloc(recordBytes)
      return parse(bytes.toString('utf8', 0, readSync(file, bytes, 0, recordBytes, 0)))
    })
  }

  /** False if there is no folder for it: then nobody can watch this process, and every process probes for itself. */
  write(record: ProberRecord): boolean {
    const { O_WRONLY, O_CREAT } = constants
    const bytes = Buffer.from(JSON.stringify(record).padEnd(recordBytes))
    const written = this.#withFile(O_WRONLY | O_CREAT, (file) => writeSync(file, bytes, 0, recordBytes, 0))
    return written === recordBytes
  }

  serve(id: string, former: ProberRecord | null): void {
    if (this.#path === null) return
    // A prober that was killed has left its socket behind.
    if (former !== null && former.id !== id) removeFile(socketOf(this.#path, former.id))
    this.#socket.serve(socketOf(this.#path, id))
  }

  watch({ id }: ProberRecord, gone: () => void): boolean {
    return this.#path !== null && this.#socket.watch(socketOf(this.#path, id), gone)
  }

  /** Another process may be taking over at this moment: then it writes the record again at its next look. */
  leave(id: string): void {
    this.#socket.close()
    if (this.read()?.id === id && this.#path !== null) removeFile(this.#path)
  }

  isAble({ pid, startTime }: ProberRecord): boolean {
    if (this.#watched?.pid !== pid || this.#watched.startTime !== startTime) {
      this.#watched?.process.close()
      this.#watched = { pid, startTime, process: new WatchedProcess(pid, startTime) }
    }
    const { liveness, isStopped } = this.#watched.process.judge()
    return liveness !== 'dead' && isStopped !== true
  }

  close(): void {
    this.#socket.close()
    this.#watched?.process.close()
    this.#watched = null
  }

  #withFile<Result>(flags: number, use: (file: number) => Result): Result | null {
    try {
      // A folder in /tmp may have been removed as unused, and made again by another user.
      if (this.#path === null || !isPrivateFolder(dirname(this.#path))) this.#path = this.#findPath()
      if (this.#path === null) return null
      const file = openSync(this.#path, flags | noFollowFlags, 0o600)
      try {
        return use(file)
      } finally {
        closeSync(file)
      }
    } catch {
      // Not there yet, or its folder is gone: search again next time.
      this.#path = null
      return null
    }
  }

  #findPath(): string | null {
    const folder = this.#folders().find(makeFolder)
    return folder === undefined ? null : join(folder, this.#name)
  }
}

/** Each prober has its own: one that steps back removes its socket, and not that of the next. */
function socketOf(path: string, id: string): string {
  return `${path}-${createHash('sha1').update(id).digest('hex').slice(0, 12)}`
}

function parse(text: string): ProberRecord | null {
  // There are none while another process is just writing it.
  const { id, pid, startTime, beatAt } = fieldsIn(text) as Partial<ProberRecord>
  const isSound = typeof id === 'string' && Number.isSafeInteger(pid) && Number.isFinite(beatAt)
  return isSound && (startTime === null || typeof startTime === 'string')
    ? ({ id, pid, startTime, beatAt } as ProberRecord)
    : null
}
