/** `holdfast prime`: one page for an agent to read when it starts. */
import { boundedText } from '../../domain/count.ts'
import { getAgentIdSimple } from '../../host/agent-id.ts'
import type { PrimePage } from '../../operations/fleet/prime.ts'
import { type Drawing, lines } from '../drawing.ts'
import { verb } from '../verb.ts'
import { brief, leaseLeft } from '../view.ts'

export const prime = verb({
  operation: 'fleet.prime',
  help: "Meant for the hook that runs when an agent's session starts:\n  HOLDFAST_AGENT=coder-1 holdfast prime",
  act: async (call) => (await call.open()).fleet.prime(),
  text: pageText,
})

/** Plain text, because a model reads it: short, with the commands to run next. */
function pageText(page: PrimePage): Drawing {
  const { agent, process, holds, unread, tasks, queues, advice } = page
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ['', `## ${title}`, ...lines]
  const all = [
    `# Holdfast: you are ${agent}`,
    process === null ? '' : `Your process is ${process.pid} on ${process.hostName}.`,
    ...section(
      'You hold',
      holds.map(
        ({ kind, title, queue, holder, isRenewed }) =>
          `- ${kind} ${title}${queue === null || kind === 'task' ? '' : ` (queue ${queue})`}: ${leaseLeft(holder.remainingMs)}${isRenewed ? ', renewed for you' : ''}`,
      ),
    ),
    ...section(
      'Unread messages',
      unread.map(({ id, sender, type, content }) => `- ${id} ${type} from ${sender}: ${brief(content, 160)}`),
    ),
    ...section(
      'Tasks you could claim, best first',
      tasks.map(({ id, key, title, priority }) => `- ${key ?? id} ${title} (priority ${priority})`),
    ),
    ...section(
      'Queues',
      queues.map(
        ({ name, ready, held, paused }) =>
          `- ${name}: ${boundedText(ready)} ready, ${boundedText(held)} held${paused ? ', paused' : ''}`,
      ),
    ),
    ...section('Do first', [
      ...(agent === getAgentIdSimple() ? [unnamed] : []),
      ...advice.map(({ what }) => `- ${what}`),
    ]),
    ...section('Commands', commands),
  ]
  return lines(all.filter((each, index) => each !== '' || all[index - 1] !== ''))
}

const unnamed =
  '- set HOLDFAST_AGENT to a name of your own: everyone on this machine who has none shares yours, and what it holds'

const commands = [
  '- `holdfast task next` claims a task under a 30-minute lease; then use `task renew`, `task update --note` and `task complete`',
  '- `holdfast queue next <queue>` claims an item under a 5-minute lease; then `queue renew` and `queue complete`',
  '- `holdfast msg inbox`, `msg receive-ack <id>`, `msg send <to> <text>`',
  "- `holdfast lock reserve 'src/x/**'` before you edit, for 5 minutes; then `lock renew <name>` or `lock release <name>`; `lock who-has <path>` says who did",
  '- `holdfast agent register --pid $PPID` registers the process that runs you',
  '- `holdfast explain <id>` says why something is waiting, held or stuck',
  '- Exit code 5 means the lease is lost: stop working on that thing. 6 means nothing to do.',
]
