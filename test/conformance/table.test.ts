/** What the operation table declares about each operation is enforced when it is called. */
import type { OperationName } from 'holdfast'
import { expect, test } from 'vitest'
import { operations } from '../../src/operations/table.ts'
import { faultOf } from '../support/answers.ts'
import { present, refusal } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

test('each row says whether its operation is urgent, adds work or grants a lease [S6-3]', () => {
  const named = (says: 'isUrgent' | 'addsWork' | 'grants' | 'answersAgent') =>
    [...operations.values()].filter((row) => row[says]).map(({ name }) => name)

  expect(named('isUrgent').sort()).toEqual([
    'instance.beat',
    'lease.check',
    'lease.renew',
    'locks.renewWaiters',
  ])
  expect(named('addsWork').sort()).toEqual(['queue.add', 'queue.addMany', 'queue.submit'])
  expect(named('grants').sort()).toEqual([
    'locks.acquireLock',
    'locks.reserve',
    'queue.acquireProcessingLock',
    'queue.claimMany',
    'queue.next',
    'queue.nextWithLock',
    'tasks.batchClaim',
    'tasks.claimNext',
    'tasks.claimTaskForAgent',
  ])
  expect(named('answersAgent').sort()).toEqual(['fleet.prime', 'messages.inbox', 'tasks.listTasks'])
})

forEachEngine((engine) => {
  test('an answer with an extra or missing field is found, even deep inside [S6-2]', async () => {
    const { hf } = await engine.open({ background: false })
    await hf.queue('jobs').add(null)
    await hf.queue('jobs').next({ agent: 'zoe' })
    const answer = await hf.execute('queue.list', { queue: 'jobs' })
    const [item = expect.fail('there is one')] = answer.items
    const { key, ...keyless } = item
    const { status, ...lease } = item.lease ?? expect.fail('it is held')

    const faults = [
      answer,
      { ...answer, items: [keyless] },
      { ...answer, items: [{ ...item, lease }] },
      { ...answer, items: [{ ...item, colour: 'red' }] },
      { ...answer, total: 1 },
    ].map((each) => faultOf('queue.list', each))

    expect(faults).toEqual([
      null,
      expect.stringMatching(/^items\.0\.key: /),
      expect.stringMatching(/^items\.0\.lease\.status: /),
      'not declared: items.0.colour',
      'not declared: total',
    ])
  })

  const facts = [...operations.values()].flatMap(({ name, facts = [] }) =>
    facts.map((fact) => [name as OperationName, fact] as const),
  )

  test.each(facts)('%s refuses a caller who states %s [S6-3]', async (name, fact) => {
    const { hf } = await engine.openForAll({ background: false })

    const refused = await refusal(() => hf.execute(name, { [fact]: [] } as never))

    expect(refused).toMatchObject({ code: 'INVALID', facts: { operation: name, fact } })
    expect(refused.message).toContain(`${name}: ${fact}: only Holdfast itself can state this`)
  })

  test('methods take no facts among their options, so no caller can declare another dead [S6-3]', async () => {
    const { hf, store } = await engine.open({ background: false })
    const worker = await store.open({ agent: 'worker' })
    await worker.tasks.addTask('one', { key: 'T-1' })
    await worker.tasks.claimTaskForAgent('T-1')
    const { lease } = await present(hf.tasks.getTask('T-1'))
    const deaths = [{ instance: lease?.instance, evidence: 'I say so' }]

    const codes = await Promise.all(
      [
        () => hf.tasks.cleanupDeadAgentLocks({ deaths } as never),
        () => hf.recovery.detectStaleLocks({ deaths } as never),
        () => hf.recovery.detectAndRecoverStale({ deaths } as never),
        () => hf.fleet.prime({ judged: [] } as never),
        () => hf.agents.beat({ dead: [] } as never),
        () => hf.agents.register({ bootId: 'another' } as never),
      ].map(async (call) => (await refusal(call)).code),
    )

    expect(codes).toEqual(codes.map(() => 'INVALID'))
    expect(await hf.tasks.getTask('T-1')).toMatchObject({ assignee: 'worker' })
  })
})
