/** A store with known recipients, recording adapters and a movable clock. */
import type { Adapter, Delivered, Envelope, Holdfast, Messages, OpenOptions } from 'holdfast'
import type { MovableEnvironment } from 'holdfast/testing'
import type { Engine, Store } from './stores.ts'

export interface Post {
  readonly hf: Holdfast
  readonly messages: Messages
  readonly env: MovableEnvironment
  readonly store: Store
}

/** Alice's handle; bob, carol and dave are known. Nothing is sent in the background. */
export async function openPost(engine: Engine, options: OpenOptions = {}): Promise<Post> {
  const { hf, env, store } = await engine.open({ agent: 'alice', background: false, ...options })
  const { messages } = hf
  await messages.register('alice', { sendsPerMinute: 0 })
  for (const name of ['bob', 'carol', 'dave']) await messages.register(name)
  return { hf, messages, env, store }
}

export interface Recorder extends Adapter {
  readonly heard: Envelope[]
}

/** Keeps every envelope; `answer` decides the outcome. */
export function recorder(
  answer: (envelope: Envelope) => Delivered | Promise<Delivered> = () => ({ outcome: 'delivered' }),
): Recorder {
  const heard: Envelope[] = []
  return {
    heard,
    async send(envelope) {
      heard.push(envelope)
      return answer(envelope)
    },
  }
}

/** Bob is reached by a recording adapter of this handle instead of his inbox. */
export async function reachBob(
  { messages }: Post,
  answer?: Parameters<typeof recorder>[0],
): Promise<Recorder> {
  const adapter = recorder(answer)
  messages.adapter('pigeon', adapter)
  await messages.register('bob', { adapter: 'pigeon', agent: 'bob' })
  return adapter
}

/** Moves time and runs what is due then. */
export async function passAfter({ messages, env }: Post, ms: number) {
  await env.advance(ms)
  return messages.processRetries()
}

/** Closed until it is opened. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}
