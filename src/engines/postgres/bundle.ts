/**
 * Statements that go to the server in one piece and are answered in one piece. By itself the driver asks for an answer
 * to each, which costs both sides a system call and an event-loop turn every time; inside a transaction nobody needs an
 * answer before the last. When a statement fails, the server skips the rest.
 */
import type { EventEmitter } from 'node:events'
import type { Connection as Wire } from 'pg'
import type { Parameter } from './parameter.ts'
import type { Row } from './plan.ts'

/** Turns what the server wrote into a value; null = used as it is. */
export type Reader = ((text: string) => unknown) | null

/** A text as the server knows it. */
export interface Statement {
  readonly text: string
  /** Null until the server has answered it once: a statement that failed may not have been prepared. */
  name: string | null
  readers: readonly Reader[]
}

export interface Answered {
  readonly rows: Row[]
  /** After a failed statement, COMMIT answers ROLLBACK without an error. */
  readonly command: string
}

export interface Part {
  readonly statement: Statement
  readonly values: readonly Parameter[]
}

/** Called once, with the answer to each part or the reason why one failed. */
export interface Settled {
  resolve(answered: readonly Answered[]): void
  reject(error: unknown): void
}

/** What the driver calls as answers come in. */
export interface Bundle {
  submit(wire: Wire): null
  handleRowDescription(message: { fields: readonly { dataTypeID: number }[] }): void
  handleDataRow(message: { fields: readonly (string | null)[] }): void
  handleCommandComplete(message: { text: string }): void
  handleReadyForQuery(): void
  handleError(error: unknown): void
}

export interface BundleOptions extends Settled {
  /** A name to prepare a statement under, never used again; null where nothing can be prepared. */
  nextName(): string | null
  readerOf(type: number): Reader
}

export type Bundler = new (parts: readonly Part[], options: BundleOptions) => Bundle

/**
 * The server ends a transaction whose client is silent for 4 s, and counts until it has a whole message. Over a slow
 * link a long message takes longer, so a short one goes ahead of it, which ends the count. Done only where necessary: a
 * process that is frozen while it sends keeps what it has locked.
 */
const maxUnheard = 2 ** 21

/** What it takes to send the values. */
export function bytesIn(parts: readonly Part[]): number {
  let bytes = 0
  for (const { values } of parts) for (const value of values) bytes += value?.length ?? 0
  return bytes
}

type DriverQuery = new (text: string) => EventEmitter

/** On a pipelined connection the driver takes only its own kind of query, and the driver is loaded on demand. */
export function bundlerOf(Query: DriverQuery): Bundler {
  return class extends Query implements Bundle {
    readonly #parts: readonly Part[]
    readonly #options: BundleOptions
    /** The name of each part's statement, if it has one. */
    readonly #names: (string | null)[] = []
    /** What was first prepared here. */
    readonly #preparing = new Map<Statement, string>()
    readonly #answered: Answered[] = []
    #rows: Row[] = []
    /** Called at the end. The driver replaces it, and limits how long it waits for the end. */
    callback: (error: unknown) => void = () => {}

    constructor(parts: readonly Part[], options: BundleOptions) {
      super('')
      this.#parts = parts
      this.#options = options
    }

    submit(wire: Wire): null {
      wire.stream.cork()
      try {
        if (bytesIn(this.#parts) > maxUnheard) wire.flush()
        for (const part of this.#parts) this.#write(wire, part)
        wire.sync()
      } finally {
        wire.stream.uncork()
      }
      return null
    }

    #write(wire: Wire, { statement, values }: Part): void {
      const name = statement.name ?? this.#preparing.get(statement) ?? this.#prepare(wire, statement)
      this.#names.push(name)
      wire.bind({ statement: name ?? '', values: values as never[] } as never, true)
      wire.execute(null, true)
    }

    #prepare(wire: Wire, statement: Statement): string | null {
      const name = this.#options.nextName()
      // The next part with this text uses the name too: if preparing it fails, the server skips that part.
      if (name !== null) this.#preparing.set(statement, name)
      wire.parse({ name: name ?? '', text: statement.text, types: [] }, true)
      wire.describe({ type: 'S', name: name ?? '' }, true)
      return name
    }

    get #current(): Part | undefined {
      return this.#parts[this.#answered.length]
    }

    handleRowDescription({ fields }: { fields: readonly { dataTypeID: number }[] }): void {
      if (this.#current)
        this.#current.statement.readers = fields.map(({ dataTypeID }) => this.#options.readerOf(dataTypeID))
    }

    handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
      const readers = this.#current?.statement.readers ?? []
      const row: unknown[] = new Array(fields.length)
      for (let index = 0; index < fields.length; index++) {
        const text = fields[index] as string | null
        const reader = readers[index]
        row[index] = text === null || !reader ? text : reader(text)
      }
      this.#rows.push(row)
    }

    handleCommandComplete({ text }: { text: string }): void {
      const part = this.#current
      if (part) part.statement.name = this.#names[this.#answered.length] ?? null
      const [command = ''] = text.split(' ', 1)
      this.#answered.push({ rows: this.#rows, command })
      this.#rows = []
    }

    handleReadyForQuery(): void {
      this.callback(null)
      this.#options.resolve(this.#answered)
    }

    handleError(error: unknown): void {
      this.callback(error)
      this.#options.reject(error)
    }
  }
}
