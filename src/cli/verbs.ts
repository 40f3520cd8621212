/** Verbs of the command line: rows that name an operation and how its answer is shown. Options come from its schema. */
import { printable, printLine, printTable } from './output.ts'

export interface Verb {
  readonly noun: string
  readonly verb: string
  readonly operation: string
  /** Input fields given by position, in order. */
  readonly positional: readonly string[]
  /** Input the verb fixes itself. */
  readonly fixed?: Readonly<Record<string, unknown>>
  /** Prints the answer for people. */
  show(answer: never): void
}

interface Item {
  readonly id: string
  readonly key: string | null
  readonly state: string
  readonly priority: number
  readonly holder: string | null
  readonly token: number
  readonly payload: unknown
  readonly attempts: number
}

type Claim =
  | { outcome: 'claimed'; item: Item }
  | { outcome: 'held'; holder: string | null }
  | { outcome: 'empty' }
  | { outcome: 'paused'; reason: string | null }

const exitCodes: Readonly<Record<string, number>> = { held: 4, empty: 6, paused: 9 }

/** A normal outcome that is not success has an exit code of its own, the same with and without `--json`. */
export function exitCodeOf(answer: unknown): number {
  const outcome = (answer as { outcome?: string } | null)?.outcome
  return exitCodes[outcome ?? ''] ?? 0
}

export const verbs: readonly Verb[] = [
  {
    noun: 'queue',
    verb: 'add',
    operation: 'queue.add',
    positional: ['queue', 'payload'],
    show({ item, position }: { item: Item; position: number | null }) {
      printLine(`${item.id}  ${item.state}${position === null ? '' : `, position ${position}`}`)
    },
  },
  {
    noun: 'queue',
    verb: 'next',
    operation: 'queue.next',
    positional: ['queue'],
    show(claim: Claim) {
      switch (claim.outcome) {
        case 'claimed':
          return printLine(
            `${claim.item.id}  token ${claim.item.token}  ${printable(JSON.stringify(claim.item.payload))}`,
          )
        case 'held':
          return printLine(`held by ${printable(claim.holder ?? 'an unknown agent')}`)
        case 'paused':
          return printLine(`paused${claim.reason ? `: ${printable(claim.reason)}` : ''}`)
        case 'empty':
          return printLine('nothing to claim')
        default:
          return claim satisfies never
      }
    },
  },
  {
    noun: 'queue',
    verb: 'done',
    operation: 'queue.complete',
    positional: ['queue', 'ref'],
    show(item: Item) {
      printLine(`${item.id}  ${item.state}`)
    },
  },
  {
    noun: 'queue',
    verb: 'list',
    operation: 'queue.list',
    positional: ['queue'],
    show({ items }: { items: Item[] }) {
      printTable(
        ['id', 'key', 'state', 'priority', 'holder', 'attempts'],
        items.map((item) => [
          item.id,
          item.key ?? '',
          item.state,
          String(item.priority),
          item.holder ?? '',
          String(item.attempts),
        ]),
      )
    },
  },
  {
    noun: 'queue',
    verb: 'recover',
    operation: 'recovery.run',
    positional: ['queue'],
    fixed: { trigger: 'manual' },
    show({
      locksCleaned,
      entriesReclaimed,
      promoted,
    }: {
      locksCleaned: number
      entriesReclaimed: number
      promoted: number
    }) {
      printLine(
        `${locksCleaned} locks cleaned, ${entriesReclaimed} items given back, ${promoted} due items put in line`,
      )
    },
  },
]
