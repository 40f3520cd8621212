/** The expected outcome of a call; any other fails the test and shows the actual one. */
import { type Claim, type HoldfastError, isHoldfastError, type Lock, type QueueItem } from 'holdfast'
import { expect } from 'vitest'

export type Claimed<Payload> = Extract<Claim<Payload>, { outcome: 'claimed' }>

/** The claim that was granted. */
export async function claimed<Payload>(claiming: Promise<Claim<Payload>>): Promise<Claimed<Payload>> {
  const claim = await claiming
  expect(claim).toMatchObject({ outcome: 'claimed' })
  return claim as Claimed<Payload>
}

/** The claim that was granted under the processing lock. */
export async function claimedWithLock<Payload>(
  claiming: Promise<Claim<Payload>>,
): Promise<Claimed<Payload> & { readonly lock: Lock }> {
  const claim = await claimed(claiming)
  expect(claim.lock).toBeDefined()
  return claim as Claimed<Payload> & { lock: Lock }
}

/** The items that were granted. */
export async function claimedMany<Payload>(
  claiming: Promise<{ outcome: string; items?: readonly { item: QueueItem<Payload> }[] }>,
): Promise<QueueItem<Payload>[]> {
  const claim = await claiming
  expect(claim.outcome).toBe('claimed')
  return (claim.items ?? []).map(({ item }) => item)
}

/** The value, which must not be null. */
export async function present<Thing>(reading: Promise<Thing | null | undefined>): Promise<Thing> {
  const thing = await reading
  expect(thing).not.toBeNull()
  expect(thing).toBeDefined()
  return thing as Thing
}

/** The Holdfast error that the call was refused with, thrown synchronously or later. */
export async function refusal(call: () => unknown): Promise<HoldfastError> {
  try {
    const result = await call()
    expect.fail(`it was not refused but answered ${JSON.stringify(result)?.slice(0, 200)}`)
  } catch (error) {
    if (isHoldfastError(error)) return error
    throw error
  }
}

/** The code of that error. */
export async function refusalCode(call: () => unknown): Promise<string> {
  return (await refusal(call)).code
}
