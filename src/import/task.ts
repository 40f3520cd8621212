/** Converts a task of another program to a task here. What has no counterpart is kept as metadata. */
import type { Json } from '../domain/json.ts'
import { isName } from '../domain/name.ts'
import { type Note, storeWords } from '../domain/task.ts'
import { cutText } from '../domain/text.ts'
import type { ItemEntry } from '../operations/queue/import.ts'
import { idFor } from './identity.ts'
import type { Arriving } from './items.ts'
import type { ImportSource } from './report.ts'
import { withoutNothing } from './source.ts'

const maxTitle = 500
const maxNotes = 50
const maxNote = 2000
const maxLabels = 100

export interface ForeignTask {
  readonly from: ImportSource
  readonly row: string
  /** Its id there, which becomes its key here. */
  readonly key: string
  readonly title: string
  /** Its texts, in order. */
  readonly texts: readonly string[]
  readonly labels: readonly string[]
  readonly owner: string | null
  readonly host: string | null
  readonly notes: readonly Note[]
  readonly metadata: { readonly [name: string]: Json | undefined }
  readonly state: 'todo' | 'in_progress' | 'review' | 'done'
  readonly holder: string | null
  readonly keptBack: string | null
  readonly priority: number
  readonly submittedBy: string | null
  readonly addedAt: number | null
  readonly startedAt: number | null
  readonly runAt: number | null
  readonly result: Json
  readonly waitsFor: readonly string[]
  readonly gaps: readonly string[]
}

/** `now` is used when the creation time is missing. */
export function asArriving(task: ForeignTask, now: number): Arriving {
  const names = usableNames(task)
  const isCut = task.title.length > maxTitle
  const hasNobody = task.state === 'in_progress' && names.holder === null
  const [older, notes] = [task.notes.slice(0, -maxNotes), task.notes.slice(-maxNotes)]
  const words = storeWords({
    title: cutText(task.title, maxTitle) || task.key,
    body: [isCut ? task.title : '', ...task.texts].filter((text) => text !== '').join('\n\n'),
    labels: names.labels,
    paths: [],
    owner: names.owner,
    host: names.host,
    metadata: withoutNothing({ ...task.metadata, ...names.unusable }),
  })
  const entry: Arriving['entry'] = {
    id: idFor(task.from, task.key),
    key: task.key,
    state: task.state,
    holder: names.holder,
    keptBack: task.keptBack,
    priority: task.priority,
    runAt: task.runAt,
    submittedBy: names.submittedBy,
    addedAt: task.addedAt ?? now,
    startedAt: task.startedAt,
    ...(task.result === null ? {} : { result: task.result }),
    payload: JSON.parse(words.payload) as Json,
    data: { ...words.data, notes: notes.map(shortened) } as NonNullable<ItemEntry['data']>,
  }
  return {
    name: task.key,
    row: task.row,
    entry,
    parent: null,
    waitsFor: task.waitsFor,
    gaps: [
      ...task.gaps,
      ...(task.addedAt === null ? ['it does not say when it was created'] : []),
      ...(hasNobody ? ['it was in progress, but names no holder: it arrives as Todo'] : []),
      ...(isCut ? ['its title was cut; the full title is in its body'] : []),
      ...(older.length > 0 ? [`${older.length} older notes were left out`] : []),
      ...Object.keys(names.unusable).map(unusableGap),
    ],
  }
}

function unusableGap(name: string): string {
  const which =
    name === 'labels' ? 'some of its labels are not valid names' : `its ${name} is not a valid name`
  return `${which} here: see its metadata`
}

/** Names of people, agents and labels: those that are valid names here, and the others unchanged as `unusable`. */
function usableNames({ owner, host, holder, submittedBy, labels }: ForeignTask) {
  const given = { owner, host, holder, submittedBy }
  const usable = (name: string | null) => (isName(name) ? name : null)
  const bad = Object.entries(given).filter(([, name]) => name !== null && !isName(name))
  const badLabels = new Set(labels.filter((label, index) => !isName(label) || index >= maxLabels))
  return {
    owner: usable(owner),
    host: usable(host),
    holder: usable(holder),
    submittedBy: usable(submittedBy),
    labels: [...new Set(labels.filter((label) => !badLabels.has(label)))],
    unusable: {
      ...Object.fromEntries(bad),
      ...(badLabels.size > 0 ? { labels: [...badLabels] } : {}),
    } as Record<string, Json>,
  }
}

/** The author of a note here is an agent with a valid name, so any other author is moved into the text. */
function shortened({ at, by, text }: Note): Note {
  return isName(by)
    ? { at, by, text: cutText(text, maxNote) }
    : { at, by: 'unknown', text: cutText(`${by}: ${text}`, maxNote) }
}
