/** How to load the rows that a command names: one function per selector, by noun in `loaders/`. */
import type { Selector } from '../../port/selector.ts'
import { answerLoaders } from './loaders/answer.ts'
import { crashLoaders } from './loaders/crash.ts'
import { dependentLoaders } from './loaders/dependent.ts'
import { eventLoaders } from './loaders/event.ts'
import { glanceLoaders } from './loaders/glance.ts'
import { heldLoaders } from './loaders/held.ts'
import { instanceLoaders } from './loaders/instance.ts'
import { itemLoaders } from './loaders/item.ts'
import { lineLoaders } from './loaders/line.ts'
import type { Loaders } from './loaders/loader.ts'
import { lockLoaders } from './loaders/lock.ts'
import { messageLoaders } from './loaders/message.ts'
import { namespaceLoaders } from './loaders/namespace.ts'
import { queueLoaders } from './loaders/queue.ts'
import { recipientLoaders } from './loaders/recipient.ts'
import { recoveryLoaders } from './loaders/recovery.ts'
import { runLoaders } from './loaders/run.ts'
import { stateLoaders } from './loaders/state.ts'
import { transactionLoaders } from './loaders/transaction.ts'
import { waiterLoaders } from './loaders/waiter.ts'
import { wordLoaders } from './loaders/word.ts'
import type { Plan, PlanScope } from './plan.ts'

const loaders: Loaders = {
  ...itemLoaders,
  ...lineLoaders,
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
  ...transactionLoaders,
}

export function planFor(selector: Selector, scope: PlanScope): Plan {
  return (loaders[selector.select] as (selector: Selector, scope: PlanScope) => Plan)(selector, scope)
}
