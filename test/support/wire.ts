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

/** Sees among the messages of one client which of them begins a commit: as a text, or as a statement prepared before. */
export class Commits {
  readonly #texts = new Map<string, string>()

  isOne({ type, bytes }: Message): boolean {
    const [first = '', second = ''] = bytes.toString('utf8', 5).split('\0', 2)
    if (type === 'P') this.#texts.set(first, second)
    // A bind names the portal, then the statement.
    const text = type === 'B' ? this.#texts.get(second) : first
    return (type === 'Q' || type === 'B') && text?.toLowerCase() === 'commit'
  }
}

/** The text that a message of type P has prepared, after the name it is prepared under. */
export function preparedText({ bytes }: Message): string {
  return bytes.toString('utf8', 5).split('\0', 2)[1] ?? ''
}

/** What a client sends after a bind to have it done and answered. */
export const execution = Buffer.concat([message('E', Buffer.alloc(5)), message('S')])

/** Whether a server says that it has committed. */
export function hasCommitted({ type, bytes }: Message): boolean {
  return type === 'C' && bytes.toString('utf8', 5, bytes.length - 1) === 'COMMIT'
}

/** A message with this letter and body. */
export function message(type: string, body: Buffer = Buffer.alloc(0)): Buffer {
  const bytes = Buffer.alloc(5 + body.length)
  bytes.write(type, 0, 'latin1')
  bytes.writeUInt32BE(4 + body.length, 1)
  body.copy(bytes, 5)
  return bytes
}
