import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { builtInWorkflows } from '../../src/domain/built-in-workflows.ts'
import { claimItem } from '../../src/domain/item-claim.ts'
import { cancelItem, completeItem, failItem, moveItem, releaseItem } from '../../src/domain/item-end.ts'
import { reclaimItem } from '../../src/domain/item-loss.ts'
import {
  arrows,
  isOneStep,
  isSameWorkflow,
  type State,
  stateOf,
  type Workflow,
} from '../../src/domain/workflow.ts'
import { assertWorkflow } from '../../src/domain/workflow-faults.ts'
import {
  ada,
  at,
  itemIn,
  job,
  merge,
  printing,
  refusalOf,
  statesOf,
  statesWhere,
  task,
  workflowNamed,
} from './samples.ts'

interface Documented {
  readonly workflow: Workflow
  /** Where `move` may lead, by hand, for every state there is. */
  readonly moves: Readonly<Record<string, readonly string[]>>
  /** Every other arrow: [from, act, to]. */
  readonly acts: readonly (readonly [from: string, act: string, to: string])[]
  /** Where a held state goes when its holder is lost. */
  readonly losses: Readonly<Record<string, string>>
}

const documented: readonly Documented[] = [
  {
    workflow: job,
    moves: {
      pending: ['cancelled'],
      running: ['done', 'failed', 'pending', 'cancelled'],
      failed: [],
      done: [],
      cancelled: [],
    },
    acts: [
      ['pending', 'claim', 'running'],
      ['running', 'complete', 'done'],
      ['running', 'fail', 'failed'],
      ['running', 'failRetryable', 'pending'],
      ['failed', 'retry', 'pending'],
    ],
    losses: { running: 'pending' },
  },
  {
    workflow: merge,
    moves: {
      pending: ['cancelled'],
      claimed: ['pending', 'rebasing', 'failed_retryable', 'failed_terminal', 'cancelled'],
      rebasing: ['testing', 'failed_retryable', 'failed_terminal', 'cancelled'],
      testing: ['ready_to_merge', 'failed_retryable', 'failed_terminal', 'cancelled'],
      ready_to_merge: ['merging', 'failed_retryable', 'failed_terminal', 'cancelled'],
      merging: ['merged', 'failed_retryable', 'failed_terminal'],
      failed_retryable: ['cancelled'],
      merged: [],
      failed_terminal: [],
      cancelled: [],
    },
    acts: [
      ['pending', 'claim', 'claimed'],
      ['ready_to_merge', 'returnToRebasing', 'rebasing'],
      ['merging', 'complete', 'merged'],
      ['failed_retryable', 'retry', 'pending'],
      ['claimed', 'fail', 'failed_terminal'],
      ['claimed', 'failRetryable', 'failed_retryable'],
      ['rebasing', 'fail', 'failed_terminal'],
      ['rebasing', 'failRetryable', 'failed_retryable'],
      ['testing', 'fail', 'failed_terminal'],
      ['testing', 'failRetryable', 'failed_retryable'],
      ['ready_to_merge', 'fail', 'failed_terminal'],
      ['ready_to_merge', 'failRetryable', 'failed_retryable'],
      ['merging', 'fail', 'failed_terminal'],
      ['merging', 'failRetryable', 'failed_retryable'],
    ],
    losses: {
      claimed: 'pending',
      rebasing: 'pending',
      testing: 'pending',
      ready_to_merge: 'pending',
      merging: 'pending',
    },
  },
  {
    workflow: task,
    moves: {
      todo: ['review'],
      in_progress: ['done', 'review', 'todo'],
      review: ['todo', 'done'],
      done: [],
    },
    acts: [
      ['todo', 'claim', 'in_progress'],
      ['review', 'claimByName', 'in_progress'],
      ['in_progress', 'complete', 'done'],
      ['in_progress', 'fail', 'todo'],
      ['in_progress', 'failRetryable', 'todo'],
    ],
    losses: { in_progress: 'todo' },
  },
]

const names = ['job', 'merge', 'task']

type Arrow = readonly [workflow: string, from: string, to: string]

const documentedMoves = documented.flatMap(({ workflow, moves }) =>
  Object.entries(moves).flatMap(([from, targets]) => targets.map((to): Arrow => [workflow.name, from, to])),
)
const documentedLosses = documented.flatMap(({ workflow, losses }) =>
  Object.entries(losses).map(([from, to]): Arrow => [workflow.name, from, to]),
)
const everyState = documented.flatMap(({ workflow, moves }) =>
  Object.keys(moves).map((state) => [workflow.name, state] as const),
)

function isDocumentedMove(arrow: Arrow): boolean {
  return documentedMoves.some((documented) => String(documented) === String(arrow))
}

function refusedTargets(name: string, from: string): string[] {
  const states = statesOf(workflowNamed(name))
  return states.filter((to) => to !== from && !isDocumentedMove([name, from, to]))
}

describe('the built-in workflows', () => {
  test.each(documented.map((table) => [table.workflow.name, table] as const))(
    '%s has exactly its documented states and arrows [Q2]',
    (_, { workflow, moves, acts, losses }) => {
      const moving = Object.entries(moves).flatMap(([from, targets]) =>
        targets.map((to) => [from, 'move', to]),
      )
      const losing = Object.entries(losses).map(([from, to]) => [from, 'lose', to])

      const states = statesOf(workflow).sort()
      const found = arrows(workflow).map(String).sort()

      expect(states).toEqual(Object.keys(moves).sort())
      expect(found).toEqual([...moving, ...acts, ...losing].map(String).sort())
    },
  )

  test.each(documentedMoves)('%s: %s may move to %s [Q2] [E-06]', (name, from, to) => {
    const workflow = workflowNamed(name)

    const moved = moveItem(itemIn(workflow, from), workflow, to, at)

    expect(moved).toMatchObject({ state: to, previousState: from })
  })

  test.each(everyState.filter(([name, from]) => refusedTargets(name, from).length > 0))(
    '%s: every other move from %s is refused, naming both states [Q2] [E-11]',
    (name, from) => {
      const workflow = workflowNamed(name)
      const item = itemIn(workflow, from)
      const others = refusedTargets(name, from)

      const refusals = others.map((to) => refusalOf(() => moveItem(item, workflow, to, at)))

      expect(refusals.map(({ code, facts }) => [code, facts.from, facts.to])).toEqual(
        others.map((to) => ['ILLEGAL_MOVE', from, to]),
      )
      expect(refusals.map(({ what }) => what)).toEqual(
        others.map((to) => expect.stringContaining(`from ${from} to ${to}`)),
      )
    },
  )

  test.each(everyState)('%s: moving from %s to itself changes nothing [Q2] [E-17]', (name, state) => {
    const workflow = workflowNamed(name)

    expect(moveItem(itemIn(workflow, state), workflow, state, at)).toBeNull()
  })

  test.each(documentedLosses)('%s: a lost holder of %s leaves it %s [Q2]', (name, from, to) => {
    const workflow = workflowNamed(name)
    const loss = { evidence: 'dead', blame: 'own' as const, maxCrashes: 3 }

    const after = reclaimItem(itemIn(workflow, from), workflow, loss, at)

    expect(after).toMatchObject({ state: to, previousState: from, phase: 'ready' })
  })

  test.each(documentedLosses.filter((arrow) => !isDocumentedMove(arrow)))(
    '%s: recovery and release may lead from %s to %s, a move may not [Q2]',
    (name, from, to) => {
      const workflow = workflowNamed(name)
      const item = itemIn(workflow, from)

      const refusal = refusalOf(() => moveItem(item, workflow, to, at))
      const released = releaseItem(item, workflow, at)

      expect(refusal).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from, to } })
      expect(released.state).toBe(to)
    },
  )

  test.each(statesWhere(({ closed }) => closed !== undefined))(
    '%s: nothing but a retry leads out of %s [E-07]',
    (name, state) => {
      const workflow = workflowNamed(name)
      const item = itemIn(workflow, state)
      const others = statesOf(workflow).filter((to) => to !== state)
      const failure = {
        error: { message: 'x' },
        retryable: true,
        backoff: { baseMs: 1, factor: 1, maxMs: 1 },
        random: 0,
      }
      const loss = { evidence: 'dead', blame: 'own' as const, maxCrashes: 3 }

      const refusals = [
        refusalOf(() => claimItem(item, workflow, ada, at)),
        refusalOf(() => completeItem(item, workflow, null, at)),
        refusalOf(() => failItem(item, workflow, failure, at)),
        refusalOf(() => releaseItem(item, workflow, at)),
        refusalOf(() => cancelItem(item, workflow, at)),
        refusalOf(() => reclaimItem(item, workflow, loss, at)),
        ...others.map((to) => refusalOf(() => moveItem(item, workflow, to, at))),
      ]

      expect(new Set(refusals.map(({ code }) => code))).toEqual(new Set(['ILLEGAL_MOVE']))
      expect(new Set(refusals.map(({ facts }) => facts.from))).toEqual(new Set([state]))
    },
  )

  test.each(names)('%s: a closed state can be reached from every open one [E-13]', (name) => {
    const workflow = workflowNamed(name)
    const stuck = statesOf(workflow).filter((state) => !reachesClosed(workflow, state))

    expect(stuck).toEqual([])
  })

  test.each(names)('%s: a state is closed exactly when only a retry leaves it [E-14]', (name) => {
    const workflow = workflowNamed(name)
    const left = new Set(arrows(workflow).flatMap(([from, act]) => (act === 'retry' ? [] : [from])))

    const wrong = statesOf(workflow).filter(
      (state) => left.has(state) === Boolean(stateOf(workflow, state).closed),
    )

    expect(wrong).toEqual([])
  })

  test.each(names)('%s: a held state can be lost, and any other cannot', (name) => {
    const workflow = workflowNamed(name)
    const wrong = Object.entries(workflow.states).filter(
      ([, { held, lostTo }]) => (held === true) !== (lostTo !== undefined),
    )

    expect(wrong).toEqual([])
  })

  test('are three, each under its own name', () => {
    const names = Object.entries(builtInWorkflows).map(([key, { name }]) => [key, name])

    expect(names).toEqual([
      ['job', 'job'],
      ['merge', 'merge'],
      ['task', 'task'],
    ])
  })
})

describe('a state', () => {
  test('is found under its own name and under no other [E-16]', () => {
    const aName = fc.oneof(
      fc.string(),
      fc.constantFrom(...statesOf(merge)),
      fc.constantFrom(...statesOf(merge)).map((name) => name.toUpperCase()),
      fc.constantFrom(...statesOf(merge)).map((name) => `${name} `),
    )
    fc.assert(
      fc.property(aName, (name) => {
        let isFound = true
        try {
          stateOf(merge, name)
        } catch {
          isFound = false
        }

        expect(isFound).toBe(statesOf(merge).includes(name))
      }),
    )
  })

  test.each(['constructor', 'toString', '__proto__'])(
    'that no workflow has is unknown even if every object has a property of that name: %s [E-18]',
    (name) => {
      const refusal = refusalOf(() => stateOf(job, name))

      expect(refusal.code).toBe('INVALID')
    },
  )

  test('that was mistyped is refused with the intended one', () => {
    const refusal = refusalOf(() => stateOf(merge, 'failed_terminl'))

    expect(refusal).toMatchObject({
      code: 'INVALID',
      facts: { workflow: 'merge', state: 'failed_terminl' },
      next: 'did you mean "failed_terminal"?',
    })
  })

  test('that resembles none is refused with a list of all', () => {
    const refusal = refusalOf(() => stateOf(task, 'x'.repeat(6)))

    expect(refusal.next).toBe('its states are todo, in_progress, review, done')
  })
})

describe('a definition', () => {
  const withStates = (states: Record<string, State>): Workflow => ({
    ...printing,
    states: { ...printing.states, ...states },
  })
  const inking = printing.states.inking as State
  const drying = printing.states.drying as State
  const queued = printing.states.queued as State
  const extra = (count: number): Record<string, State> =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`extra${index}`, { moves: ['dropped'] }]))

  test('that works is accepted', () => {
    expect(() => assertWorkflow(printing)).not.toThrow()
  })

  test.each([1, 100])('may have %i slots', (slots) => {
    expect(() => assertWorkflow({ ...printing, slots })).not.toThrow()
  })

  test('may have 50 states', () => {
    expect(() => assertWorkflow(withStates(extra(44)))).not.toThrow()
  })

  test('may do without slots and without cancelling', () => {
    const { slots: _slots, cancelTo: _cancelTo, ...plain } = printing

    expect(() => assertWorkflow(plain)).not.toThrow()
  })

  test.each<[fault: string, definition: Workflow]>([
    ['its name is not usable', { ...printing, name: '../x' }],
    ['its name is that of a built-in workflow', { ...printing, name: 'merge' }],
    ['it has more than 50 states', withStates(extra(45))],
    ['initial state "nowhere" does not exist', { ...printing, initial: 'nowhere' }],
    ['initial state "constructor" does not exist', { ...printing, initial: 'constructor' }],
    ['initial state "inking" is held or closed', { ...printing, initial: 'inking' }],
    ['initial state "dropped" is held or closed', { ...printing, initial: 'dropped' }],
    ['nothing leads from pit to a closed state', withStates({ pit: { moves: [] } })],
    [
      'retryTo of smudged must lead to an open state that is not held',
      withStates({ smudged: { closed: 'failed', moves: [], retryTo: 'inking' } }),
    ],
    [
      'retryTo of smudged must lead to an open state that is not held',
      withStates({ smudged: { closed: 'failed', moves: [], retryTo: 'dropped' } }),
    ],
    [
      'lostTo of drying must lead from a held state to an open one that is not held',
      withStates({ drying: { ...drying, lostTo: 'printed' } }),
    ],
    ['no state can be claimed', withStates({ queued: { moves: ['dropped'] } })],
    [
      'no state is closed as succeeded',
      withStates({ printed: { closed: 'failed', moves: [] }, drying: { ...inking, moves: ['printed'] } }),
    ],
    ['cancelTo "printed" must be a state that is closed as failed', { ...printing, cancelTo: 'printed' }],
    ['cancelTo "nowhere" must be a state that is closed as failed', { ...printing, cancelTo: 'nowhere' }],
    ['slots must be a whole number from 1 to 100', { ...printing, slots: 0 }],
    ['slots must be a whole number from 1 to 100', { ...printing, slots: 101 }],
    ['slots must be a whole number from 1 to 100', { ...printing, slots: 1.5 }],
    [
      'queued leads to "nowhere", which does not exist',
      withStates({ queued: { ...queued, moves: ['nowhere'] } }),
    ],
    [
      'inking leads to "nowhere", which does not exist',
      withStates({ inking: { ...inking, failTo: 'nowhere' } }),
    ],
    ['state name "../x" is not usable', withStates({ '../x': { moves: ['dropped'] } })],
    [
      'queued is claimed to "printed", which is not held',
      withStates({ queued: { ...queued, claimByNameTo: 'printed' } }),
    ],
    [
      'inking is held and closed or claimable at once',
      withStates({ inking: { ...inking, claimByNameTo: 'drying' } }),
    ],
    [
      'printed is closed but can be left',
      withStates({ printed: { closed: 'succeeded', moves: [], claimByNameTo: 'inking' } }),
    ],
    [
      'queued is claimed to "dropped", which is not held',
      withStates({ queued: { claimTo: 'dropped', moves: [] } }),
    ],
    [
      'inking is held but has no lostTo, so it could never be recovered',
      withStates({ inking: { held: true, moves: ['drying', 'dropped'] } }),
    ],
    [
      'lostTo of inking must lead from a held state to an open one that is not held',
      withStates({ inking: { ...inking, lostTo: 'drying' } }),
    ],
    [
      'lostTo of queued must lead from a held state to an open one that is not held',
      withStates({ queued: { ...queued, lostTo: 'dropped' } }),
    ],
    [
      'inking is held and closed or claimable at once',
      withStates({ inking: { ...inking, claimTo: 'drying' } }),
    ],
    [
      'drying is held and closed or claimable at once',
      withStates({ drying: { held: true, lostTo: 'queued', closed: 'failed', moves: [] } }),
    ],
    ['dropped is closed but can be left', withStates({ dropped: { closed: 'failed', moves: ['queued'] } })],
    [
      'dropped is closed but can be left',
      withStates({ dropped: { closed: 'failed', moves: [], claimTo: 'inking' } }),
    ],
    [
      'printed is closed as succeeded but can be retried',
      withStates({ printed: { closed: 'succeeded', moves: [], retryTo: 'queued' } }),
    ],
    [
      'completeTo of inking must be a state that is closed as succeeded',
      withStates({ inking: { ...inking, completeTo: 'smudged' } }),
    ],
    [
      'queued is not held, so nobody can complete, fail or return it',
      withStates({ queued: { ...queued, failTo: 'smudged' } }),
    ],
    [
      'queued is not held, so nobody can complete, fail or return it',
      withStates({ queued: { ...queued, returnTo: 'inking' } }),
    ],
  ])('is refused because %s', (fault, definition) => {
    const refusal = refusalOf(() => assertWorkflow(definition))

    expect(refusal).toMatchObject({ code: 'INVALID', facts: { workflow: definition.name, faults: [fault] } })
  })

  test('is refused if an open state leads only to others that never close [E-13]', () => {
    const circle = withStates({ left: { moves: ['right'] }, right: { moves: ['left'] } })

    const refusal = refusalOf(() => assertWorkflow(circle))

    expect(refusal.facts.faults).toEqual([
      'nothing leads from left to a closed state',
      'nothing leads from right to a closed state',
    ])
  })

  test('may have any valid name except the built-in ones, even one that every object has', () => {
    expect(() => assertWorkflow({ ...printing, name: 'constructor' })).not.toThrow()
  })

  test('with several faults is refused with all of them at once', () => {
    const refusal = refusalOf(() =>
      assertWorkflow({ ...printing, name: 'job', initial: 'nowhere', slots: -1 }),
    )

    expect(refusal.facts.faults).toHaveLength(3)
  })
})

function reachesClosed(workflow: Workflow, start: string): boolean {
  const reached = new Set([start])
  for (const from of reached) {
    for (const arrow of arrows(workflow)) if (arrow[0] === from) reached.add(arrow[2])
  }
  return [...reached].some((state) => stateOf(workflow, state).closed)
}

test('the holder of a job or a task can finish it at once; a merge takes more steps [S5c-31]', () => {
  const dangling = { ...job, states: { ...job.states, pending: { claimTo: 'nowhere', moves: [] } } }
  const failless = {
    ...job,
    states: { ...job.states, running: { ...job.states.running, failTo: undefined } },
  }

  expect([job, task, printing, merge].map(isOneStep)).toEqual([true, true, false, false])
  expect(isOneStep(dangling)).toBe(false)
  expect(isOneStep(failless as unknown as Workflow)).toBe(false)
})

test('two definitions are the same in any order, and differ if one arrow does [S5c-21]', () => {
  const states = Object.entries(job.states).reverse()
  const shuffled = {
    ...Object.fromEntries(Object.entries(job).reverse()),
    states: Object.fromEntries(
      states.map(([name, { moves, ...rest }]) => [name, { moves: [...moves, ...moves].reverse(), ...rest }]),
    ),
  } as unknown as Workflow
  const shorter = { ...job, states: { ...job.states, pending: { claimTo: 'running', moves: [] } } }

  expect(isSameWorkflow(job, shuffled)).toBe(true)
  expect(isSameWorkflow(job, shorter)).toBe(false)
})
