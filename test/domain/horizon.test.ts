import { describe, expect, test } from 'vitest'
import { agreedWall, type Horizon, isSettled, settleHorizon, waitFor } from '../../src/domain/horizon.ts'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour
const year = 365 * day
const noon = Date.UTC(2026, 0, 1, 12)

/** A store that is looked at every minute; each step says how long for and what happens to the clocks first. */
class Store {
  now = 5_000_000
  wall = noon
  kept: Horizon | null = null
  readonly waitMs: number

  constructor(waitMs = hour) {
    this.waitMs = waitMs
  }

  look(): this {
    this.kept = settleHorizon(this.kept, this.waitMs, this)
    return this
  }

  pass(ms: number): this {
    for (let passed = 0; passed < ms; passed += minute) {
      this.look()
      this.now += minute
      this.wall += minute
    }
    return this.look()
  }

  set(byMs: number): this {
    this.wall += byMs
    return this
  }

  /** How far the date that is believed lies behind the true one. */
  behind(trueWall = this.wall): number | null {
    return this.kept?.settledAt == null ? null : trueWall - this.kept.settledAt
  }
}

test('a date is trusted an hour after it was recorded, and the next one an hour later [S5b-10]', () => {
  const store = new Store()

  const behind = [30 * minute, 29 * minute, minute, 59 * minute, minute, 10 * day].map((ms) =>
    store.pass(ms).behind(),
  )

  expect(behind).toEqual([null, null, hour, 2 * hour - minute, hour, hour])
})

test('anything kept for less than an hour waits a minute [S5b-10]', () => {
  expect([1, hour - 1, hour, year].map(waitFor)).toEqual([minute, minute, hour, hour])
  expect(new Store(minute).pass(3 * minute).behind()).toBe(minute)
})

test('nothing is written while nothing has changed', () => {
  const store = new Store().pass(90 * minute)
  const kept = store.kept

  expect(store.pass(20 * minute).kept).toBe(kept)
})

describe('a date a year ahead [S5b-10]', () => {
  test.each([
    ['for a minute', 1],
    ['for 59 minutes', 59],
  ])('%s is never trusted', (_, minutes) => {
    const store = new Store().pass(5 * hour)

    store.set(year)
    const meanwhile = Array.from({ length: minutes }, () => store.pass(minute).behind(store.wall - year))
    store.set(-year).pass(minute)

    expect(Math.min(...meanwhile.map(Number))).toBeGreaterThan(0)
    expect(store.behind()).toBeGreaterThan(0)
    expect(store.pass(2 * hour).behind()).toBeLessThanOrEqual(2 * hour)
  })

  test('for a day is trusted after an hour; once it is corrected, no date is until an hour later', () => {
    const store = new Store().pass(5 * hour)

    const ahead = store
      .set(year)
      .pass(day)
      .behind(store.wall - year)
    const corrected = store.set(-year).pass(0).behind()
    const later = store.pass(59 * minute).behind()

    expect(ahead).toBeLessThan(0)
    expect([corrected, later]).toEqual([null, null])
    expect(store.pass(minute).behind()).toBe(hour)
  })

  test('forever is trusted after two hours at most', () => {
    const store = new Store().pass(5 * hour).set(year)

    expect(store.pass(2 * hour).behind()).toBeLessThanOrEqual(2 * hour)
  })
})

test('a date that was behind is trusted, which keeps things longer, and the right one two hours after its correction', () => {
  const store = new Store().pass(5 * hour)

  const behind = store
    .set(-year)
    .pass(5 * hour)
    .behind()
  const back = store
    .set(year)
    .pass(2 * hour)
    .behind()

  expect(behind).toBe(hour)
  expect(back).toBeLessThanOrEqual(2 * hour)
})

test('corrections of seconds change nothing', () => {
  const store = new Store().pass(5 * hour)

  for (let times = 0; times < 10; times++) store.set(-5_000).pass(5 * minute)

  expect(store.behind()).toBeLessThanOrEqual(2 * hour)
})

test('a machine that sleeps delays nothing: its wall clock runs ahead of its lease clock [S5b-10]', () => {
  const store = new Store()

  for (let nights = 0; nights < 30; nights++) store.pass(8 * hour).set(16 * hour)
  store.pass(hour)

  expect(store.behind()).toBeLessThanOrEqual(hour + 16 * hour)
  expect(store.pass(hour).behind()).toBeLessThanOrEqual(2 * hour)
})

test('a lease clock that went back, as after a failover, restarts the hour [S5b-10]', () => {
  const store = new Store().pass(90 * minute)
  store.now -= day

  const [soon, later] = [store.pass(59 * minute).behind(), store.pass(minute).behind()]

  expect([soon, later]).toEqual([150 * minute - 1 * minute, hour])
})

test('a lease clock that jumped with the date, as at a boot or on a server, trusts only what was recorded before [S5b-10]', () => {
  const store = new Store().pass(90 * minute)
  store.now += year
  store.set(year)

  const atOnce = store.look().behind(store.wall - year)
  store.now -= year
  store.set(-year)

  expect(atOnce).toBe(30 * minute)
  expect(store.look().behind()).toBe(30 * minute)
  expect(store.pass(2 * hour).behind()).toBeLessThanOrEqual(2 * hour)
})

test('a trusted date holds while the wall clock is not behind it', () => {
  expect(isSettled(null, { wall: 1 })).toBe(true)
  expect(isSettled(5, { wall: 5 })).toBe(true)
  expect(isSettled(5, { wall: 4 })).toBe(false)
})

describe('the date both clocks agree on [S5b-10]', () => {
  test('is the wall clock while none is trusted', () => {
    const store = new Store()

    expect(agreedWall(store.kept, store)).toBe(store.wall)
    expect(agreedWall(store.look().kept, store)).toBe(store.wall)
  })

  test('is the wall clock, or the trusted date as the lease clock continues it, whichever is earlier', () => {
    const store = new Store().pass(5 * hour)
    const at = store.wall

    const [plain, ahead, behind] = [0, year, -2 * year].map((ms) => agreedWall(store.kept, store.set(ms)))

    expect([plain, ahead, behind]).toEqual([at, at, at - year])
  })

  test('does not fall behind the trusted date when the lease clock went back', () => {
    const store = new Store().pass(hour)
    store.now = 0

    expect(agreedWall(store.kept, store)).toBe(store.wall - hour)
  })
})
