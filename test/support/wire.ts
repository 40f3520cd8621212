/** The messages of PostgreSQL's protocol, cut out of a stream of bytes: a letter, a length, a body. */

export interface Message {
  /** The first one of a client has none: ''. */
  readonly type: string
  /** With its letter and length, as it goes over the wire. */
  readonly bytes: Buffer
}

/** Cuts what comes into whole messages; the rest waits for more. */
export class Messages {
  #left: Buffer = Buffer.alloc(0)
  #isFirst: boolean

  /** `from` a client the first message has no letter. */
  constructor(from: 'client' | 'server') {
    this.#isFirst = from === 'client'
  }

  take(chunk: Buffer): Message[] {
    this.#left = this.#left.length === 0 ? chunk : Buffer.concat([this.#left, chunk])
    const messages: Message[] = []
    for (let next = this.#next(); next !== null; next = this.#next()) messages.push(next)
    return messages
  }

  #next(): Message | null {
    const letters = this.#isFirst ? 0 : 1
    if (this.#left.length < letters + 4) return null
    const length = letters + this.#left.readUInt32BE(letters)
    if (this.#left.length < length) return null
    const bytes = this.#left.subarray(0, length)
    this.#left = this.#left.subarray(length)
    this.#isFirst = false
    return { type: letters === 0 ? '' : String.fromCharCode(bytes[0] as number), bytes }
  }
}

/** Whether a client asks to commit. */
export function isCommit({ type, bytes }: Message): boolean {
  return type === 'Q' && bytes.toString('utf8', 5, bytes.length - 1).toLowerCase() === 'commit'
}

/** Whether a server says that it has committed. */
export function hasCommitted({ type, bytes }: Message): boolean {
  return type === 'C' && bytes.toString('utf8', 5, bytes.length - 1) === 'COMMIT'
}
