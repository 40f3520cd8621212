import { expect, test, vi } from 'vitest'
import { failureFacts, failureOf, retryableIn } from '../../src/domain/failure.ts'
import { stderrLogger } from '../../src/logger.ts'

const escapeCharacter = String.fromCharCode(27)

test('[S5-4] an error keeps its message, its code and its stack', () => {
  const error = Object.assign(new RangeError('too far'), { code: 'E_FAR' })

  expect(failureOf(error)).toEqual({
    message: 'too far',
    code: 'E_FAR',
    stack: expect.stringContaining('failure.test'),
  })
})

test('[S5-4] the causes of an error follow it, and a cycle of them ends', () => {
  const inner = new Error('inner')
  const outer = new Error('outer', { cause: inner })
  inner.cause = outer

  const { stack = '' } = failureOf(outer)

  expect(stack.match(/^(caused by: )?Error: (inner|outer)$/gm)?.slice(0, 2)).toEqual([
    'Error: outer',
    'caused by: Error: inner',
  ])
  expect(stack.length).toBeLessThanOrEqual(4_000)
})

test('[S5-4] a value without a stack has none, and one that throws when read says so', () => {
  const hostile = {
    get message() {
      throw new Error('never')
    },
    get stack() {
      throw new Error('never')
    },
    toString() {
      throw new Error('never')
    },
  }

  expect(failureOf('late')).toEqual({ message: 'late' })
  expect(failureOf(null)).toEqual({ message: 'null' })
  expect(failureOf({ message: 7, code: 7, stack: 7 })).toEqual({
    message: '{"message":7,"code":7,"stack":7}',
  })
  expect(failureOf(hostile)).toEqual({ message: 'the thrown value has no readable text' })
  expect(failureOf({ toJSON: () => undefined })).toEqual({ message: 'the thrown value has no readable text' })
})

test('[S5-4] a message of 300,000 empty lines is searched for frames once', () => {
  const startedAt = performance.now()

  const { stack = '' } = failureOf(new Error(`${'\n'.repeat(300_000)}end`))

  expect(stack).toContain('failure.test')
  // Looking again from every line would take minutes.
  expect(performance.now() - startedAt).toBeLessThan(5_000)
})

test('[S5-4] the log on stderr has the stack below its line, and neither can control a terminal or forge a line', () => {
  const written: string[] = []
  const write = vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0)
  const failure = {
    message: `${escapeCharacter}[2J\u009b`,
    stack: `Error: x\nholdfast error forged${escapeCharacter}[2J`,
  }

  stderrLogger.warn(failureFacts({ queue: 'q', id: 'i', attempts: 2 }, failure), 'item.failed')
  write.mockRestore()

  expect(written).toEqual([
    [
      'holdfast warn item.failed queue="q" item="i" attempt=2 error="\\u001b[2J\\u009b"',
      '    Error: x',
      '    holdfast error forged\\u001b[2J',
      '',
    ].join('\n'),
  ])
})

test('[S5c-3] whether a retry helps can be read from any value, even an unreadable one', () => {
  const hostile = Object.defineProperty(new Error(), 'retryable', {
    get: () => {
      throw new Error('never')
    },
  })

  expect([{ retryable: false }, { retryable: 'no' }, null, hostile].map(retryableIn)).toEqual([
    false,
    undefined,
    undefined,
    undefined,
  ])
})
