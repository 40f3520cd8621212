/** Loads the rows a command names: one function per selector, grouped by noun in `loaders/`. */
import type { Loaded, Needs, Selector } from '../../port/selector.ts'
import { answerLoaders } from './loaders/answer.ts'
import { crashLoaders } from './loaders/crash.ts'
import { dependentLoaders } from './loaders/dependent.ts'
import { eventLoaders } from './loaders/event.ts'
import { glanceLoaders } from './loaders/glance.ts'
import { heldLoaders } from './loaders/held.ts'
import { instanceLoaders } from './loaders/instance.ts'
import { itemLoaders } from './loaders/item.ts'
import type { Loaders } from './loaders/loader.ts'
import { lockLoaders } from './loaders/lock.ts'
import { messageLoaders } from './loaders/message.ts'
import { namespaceLoaders } from './loaders/namespace.ts'
import { queueLoaders } from './loaders/queue.ts'
import { recipientLoaders } from './loaders/recipient.ts'
import { recoveryLoaders } from './loaders/recovery.ts'
import { runLoaders } from './loaders/run.ts'
import { stateLoaders } from './loaders/state.ts'
import { waiterLoaders } from './loaders/waiter.ts'
import { wordLoaders } from './loaders/word.ts'
import type { Source } from './rows.ts'

const loaders: Loaders = {
  ...itemLoaders,
  ...wordLoaders,
  ...dependentLoaders,
  ...glanceLoaders,
  ...queueLoaders,
  ...lockLoaders,
  ...waiterLoaders,
  ...runLoaders,
  ...instanceLoaders,
  ...answerLoaders,
  ...recoveryLoaders,
  ...namespaceLoaders,
  ...eventLoaders,
  ...stateLoaders,
  ...heldLoaders,
  ...crashLoaders,
  ...messageLoaders,
  ...recipientLoaders,
  // There is no server to ask.
  longTransactions: () => [],
  lockBlockers: () => [],
}

export function load(source: Source, needs: Needs): Loaded<Needs> {
  // No prototype, because some names come from the caller.
  const rows: Record<string, unknown> = Object.create(null)
  for (const name in needs) {
    const selector = needs[name]
    rows[name] = selector
      ? (loaders[selector.select] as (source: Source, selector: Selector) => unknown)(source, selector)
      : null
  }
  return rows as Loaded<Needs>
}
