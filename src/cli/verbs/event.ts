/** `holdfast events`: the audit trail. */

import { eventKinds } from '../../domain/event.ts'
import type { EventPage, EventView } from '../../operations/event/event.ts'
import { assertFilter, type EventFilter } from '../../operations/event/filter.ts'
import { lines } from '../drawing.ts'
import { untilInterrupted } from '../interrupt.ts'
import { readValue } from '../value.ts'
import { type Call, type OwnOption, verb } from '../verb.ts'
import { brief, type View } from '../view.ts'

function eventLine(event: EventView, view: View): string {
  const { seq, at, kind, subject, id, agent, token, detail } = event
  const parts = [
    String(seq).padStart(6),
    view.time(at),
    kind.padEnd(16),
    `${subject} ${id}`,
    agent === null ? '' : `by ${agent}`,
    token === null || token === 0 ? '' : `token ${token}`,
    detail === null ? '' : brief(detail),
  ]
  return parts.filter((part) => part !== '').join('  ')
}

const filterOptions: readonly OwnOption[] = [
  {
    flags: '--kind <kind>',
    description: 'Only events of this kind, such as item.failed. Repeatable.',
    isRepeatable: true,
  },
  { flags: '--queue <name>', description: 'Only events of this queue and its items.' },
]

/** Options of their own, because the list of all kinds would fill the help. */
function filterIn({ options, view }: Call): Pick<EventFilter, 'kinds' | 'queue'> {
  const { kind, queue } = options as { kind?: readonly string[]; queue?: string }
  const known = { name: 'kinds', kind: 'choices', choices: eventKinds, typed: '--kind' } as const
  const field = { ...known, isOptional: true, isNullable: false, description: '' }
  const kinds = kind && (readValue(field, kind, view.now) as EventView['kind'][])
  const filter = { kinds, queue }
  assertFilter(filter)
  return filter
}

/**
 * Reads on until there are as many as asked for, because one read searches only so many events. `next` continues from
 * there, as that of the operation does.
 */
async function listWanted(call: Call<'events.list'>): Promise<EventPage> {
  const filter = filterIn(call)
  const newest = call.options.oldest !== true && call.input.since === undefined
  const { limit = 100, ...input } = call.input
  const found: EventView[] = []
  let next: number | null = null
  do {
    const start = next === null ? {} : { [newest ? 'before' : 'since']: next }
    const asked = { ...input, ...filter, ...start, newest, limit: limit - found.length }
    const page: EventPage = await call.execute('events.list', asked)
    if (newest) found.unshift(...page.events)
    else found.push(...page.events)
    next = page.next
  } while (next !== null && found.length < limit)
  return { events: found, next }
}

export const verbs = [
  verb({
    operation: 'events.list',
    summary: 'List the newest events, oldest first; with --since or --oldest, from there on.',
    isDefault: true,
    hides: ['newest', 'kinds', 'queue'],
    options: [
      ...filterOptions,
      { flags: '--oldest', description: 'Begin with the oldest that is kept instead of showing the newest.' },
    ],
    help: '  holdfast events list --queue builds --kind item.failed --limit 10',
    act: listWanted,
    text: ({ events }, view) => lines(events.map((event) => eventLine(event, view))),
  }),
  verb({
    name: 'follow',
    summary: 'Follow events as they happen, in order and without gaps, until interrupted.',
    options: [
      {
        flags: '--since <seq>',
        kind: 'integer',
        description: 'begin after this sequence number; default with what is new',
      },
      ...filterOptions,
    ],
    async act(call) {
      const filter = filterIn(call)
      const hf = await call.open()
      const newest = await call.execute('events.list', { newest: true, limit: 1 })
      const { since = newest.events[0]?.seq ?? 0 } = call.options as { since?: number }
      await untilInterrupted(async (signal) => {
        for await (const event of hf.events({ ...filter, since, signal }))
          call.emit(eventLine(event, call.view), event)
      })
    },
  }),
  verb({
    operation: 'events.images',
    text: ({ seq, digest, images: all }) =>
      lines([
        ...all.map(({ subject, id, image }) => `${subject} ${id}  ${brief(image)}`),
        `events before ${seq + 1} were removed${digest === null ? '' : `, digest ${digest}`}`,
      ]),
  }),
]
