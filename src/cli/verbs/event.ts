/** `holdfast events`: the audit trail. */

import { InvalidError } from '../../errors.ts'
import type { EventPage, EventView } from '../../operations/event/event.ts'
import { lines } from '../drawing.ts'
import { verb } from '../verb.ts'
import { brief, type View } from '../view.ts'
import { untilInterrupted } from './stream.ts'

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

async function beginning(given: unknown, newest: () => Promise<EventPage>): Promise<number> {
  if (given === undefined) return (await newest()).events[0]?.seq ?? 0
  if (typeof given === 'string' && /^\d{1,15}$/.test(given)) return Number(given)
  throw new InvalidError({
    what: `--since: "${given}" is not a sequence number`,
    next: 'give the number of the last event you have seen, 0 for the beginning',
  })
}

export const eventVerbs = [
  verb({
    name: 'list',
    operation: 'events.list',
    isDefault: true,
    text: ({ events }, view) => lines(events.map((event) => eventLine(event, view))),
  }),
  verb({
    name: 'follow',
    summary: 'Follow all events, in order and without gaps, until interrupted.',
    options: [
      { flags: '--since <seq>', description: 'begin after this sequence number; default with what is new' },
    ],
    async act(call) {
      const hf = await call.open()
      const since = await beginning(call.options.since, () =>
        call.execute('events.list', { newest: true, limit: 1 }),
      )
      await untilInterrupted(async (signal) => {
        for await (const event of hf.events({ since, signal })) call.emit(eventLine(event, call.view), event)
      })
    },
  }),
  verb({
    name: 'images',
    operation: 'events.images',
    text: ({ seq, digest, images: all }) =>
      lines([
        ...all.map(({ subject, id, image }) => `${subject} ${id}  ${brief(image)}`),
        `events before ${seq + 1} were removed${digest === null ? '' : `, digest ${digest}`}`,
      ]),
  }),
]
