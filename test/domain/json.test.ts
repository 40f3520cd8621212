import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { isSameJson, JsonFault, jsonCopy, jsonText, maxDepth } from '../../src/domain/json.ts'

const enough = 1000

class Money {
  readonly #cents = 5
  readonly currency = 'EUR'
  cents() {
    return this.#cents
  }
}
class JobArray {
  readonly jobs = [1]
}
class Secret {
  readonly #word = 'x'
  word() {
    return this.#word
  }
}

const circle: Record<string, unknown> = { list: [] }
;(circle.list as unknown[]).push(circle)

const refused: Record<string, { value: unknown; path: string; words: string }> = {
  undefined: { value: undefined, path: '', words: 'is undefined' },
  'undefined in a list': { value: { a: [1, undefined] }, path: 'a.1', words: 'is undefined' },
  'a hole in a list': { value: Array(1), path: '0', words: 'is undefined' },
  'a function': { value: { a: { b: () => 1 } }, path: 'a.b', words: 'is a function' },
  'a symbol': { value: [Symbol('s')], path: '0', words: 'is a symbol' },
  'a big integer': { value: { n: 1n }, path: 'n', words: 'is a bigint' },
  'not a number': { value: { n: [Number.NaN] }, path: 'n.0', words: 'is NaN' },
  infinity: { value: { n: Number.NEGATIVE_INFINITY }, path: 'n', words: 'is -Infinity' },
  'a Map': { value: { m: new Map([[1, 2]]) }, path: 'm', words: 'is of the class Map' },
  'a Set': { value: new Set([1]), path: '', words: 'is of the class Set' },
  'an error': {
    value: { e: Object.assign(new Error('x'), { code: 'X' }) },
    path: 'e',
    words: 'is of the class Error',
  },
  'a list of bytes': { value: { b: new Uint8Array(2) }, path: 'b', words: 'is of the class Uint8Array' },
  'a boxed number': { value: Object(5), path: '', words: 'is of the class Number' },
  'an object of which nothing can be seen': {
    value: { s: new Secret() },
    path: 's',
    words: 'of the class Secret',
  },
  'an invalid date': { value: { at: new Date(Number.NaN) }, path: 'at', words: 'is an invalid date' },
  'an object in itself': { value: circle, path: 'list.0', words: 'is part of itself' },
  'a getter that throws': {
    value: Object.defineProperty({ a: 1n }, 'b', {
      enumerable: true,
      get: () => {
        throw new Error('no such thing')
      },
    }),
    path: 'a',
    words: 'is a bigint',
  },
  'a getter that throws, and all else is plain': {
    value: {
      a: {
        get b() {
          throw new Error('no such thing')
        },
      },
    },
    path: 'a.b',
    words: 'cannot be read: no such thing',
  },
  'a proxy that was revoked': { value: { p: revoked() }, path: 'p', words: 'cannot be read' },
  'a toJSON that throws': {
    value: {
      a: {
        toJSON: () => {
          throw new Error('not today')
        },
      },
    },
    path: 'a',
    words: 'cannot be read: not today',
  },
  'a toJSON that throws no error': {
    value: {
      toJSON: () => {
        // biome-ignore lint/style/useThrowOnlyError: anything may be thrown
        throw 'x'
      },
    },
    path: '',
    words: 'cannot be read: x',
  },
  'a toJSON that throws what has no text': {
    value: {
      toJSON: () => {
        throw Object.create(null)
      },
    },
    path: '',
    words: 'cannot be read: the thrown value has no readable text',
  },
  'a toJSON that answers nothing, at the top': {
    value: { toJSON: () => undefined },
    path: '',
    words: 'is undefined',
  },
  'a class without a name': {
    value: Object.create({ constructor: { name: 5 } }),
    path: '',
    words: 'is of the class Object',
  },
}

describe('values that JSON cannot represent are refused with their path', () => {
  test.each(Object.entries(refused))('%s [S5-20]', (_what, { value, path, words }) => {
    for (const read of [jsonText, copy]) {
      const fault = faultOf(() => read(value, enough))

      expect(fault.path.join('.')).toBe(path)
      expect(fault.message).toContain(words)
      expect(fault.next).not.toBe('')
    }
  })
})

describe('values that JSON can represent are kept', () => {
  test.each([
    { value: null, text: 'null' },
    { value: 'half \ud800', text: '"half \\ud800"' },
    { value: { a: [1, 'x', true, null, { b: {} }] }, text: '{"a":[1,"x",true,null,{"b":{}}]}' },
    { value: { a: undefined, b: 1 }, text: '{"b":1}' },
    { value: Object.assign(Object.create(null), { a: { b: undefined } }), text: '{"a":{}}' },
    { value: new Money(), text: '{"currency":"EUR"}' },
    { value: new JobArray(), text: '{"jobs":[1]}' },
    {
      value: { constructor: { name: 'Set' }, at: new Date(0) },
      text: '{"constructor":{"name":"Set"},"at":"1970-01-01T00:00:00.000Z"}',
    },
    { value: { at: new Date(0) }, text: '{"at":"1970-01-01T00:00:00.000Z"}' },
    {
      value: { a: { toJSON: (key: string) => `of ${key}` }, b: { toJSON: () => undefined } },
      text: '{"a":"of a"}',
    },
    { value: runInNewContext('({ a: [{}], b: 1 })'), text: '{"a":[{}],"b":1}' },
    { value: [Object.create(null)], text: '[{}]' },
  ])('as $text [S5-31]', ({ value, text }) => {
    expect(jsonText(value, enough)).toBe(text)
    expect(JSON.stringify(copy(value, enough))).toBe(text)
  })

  test('a field named __proto__ is an ordinary field', () => {
    const value = { when: new Date(0), nested: JSON.parse('{"__proto__":{"a":1}}') }

    expect(jsonText(value, enough)).toContain('{"__proto__":{"a":1}}')
  })

  test('a getter that changes its value is read once and kept [S5-20]', () => {
    let asked = 0
    const value = { get n() { return ++asked === 2 ? 1n : asked } } // biome-ignore format: one thing

    expect(jsonText(value, enough)).toBe('{"n":3}')
  })

  test('toJSON and getters are called once [S5-31]', () => {
    let asked = 0
    const value = { a: { toJSON: () => ++asked }, get b() { return ++asked } } // biome-ignore format: one thing

    expect(jsonText(value, enough)).toBe('{"a":1,"b":2}')
    expect(asked).toBe(2)
  })
})

describe('two values are the same JSON', () => {
  test.each([
    ['when they are equal', 1, 1],
    ['in any order of keys', { a: 1, b: [{ c: null, d: 'x' }] }, { b: [{ d: 'x', c: null }], a: 1 }],
    ['when both are empty', {}, {}],
  ])('%s [S5c-43]', (_, left, right) => {
    expect(isSameJson(left, right)).toBe(true)
  })

  test.each([
    ['numbers', 1, 2],
    ['kinds', 1, '1'],
    ['null and an object', null, {}],
    ['an object and null', {}, null],
    ['nothing and null', undefined, null],
    ['a list and an object', [], {}],
    ['the order of a list', [1, 2], [2, 1]],
    ['lengths', [1], [1, 2]],
    ['a key', { a: 1 }, { b: 1 }],
    ['a key that every object inherits', { toString: 1 }, { a: 1 }],
    ['depths', { a: { b: 1 } }, { a: { b: 2 } }],
  ])('unless they differ in %s [S5c-43]', (_, left, right) => {
    expect(isSameJson(left, right)).toBe(false)
  })
})

describe('bounds', () => {
  test('are in bytes, not in characters', () => {
    expect(jsonText('é'.repeat(499), enough)).toHaveLength(501)
    expect(faultOf(() => jsonText('é'.repeat(500), enough)).facts).toEqual({ bytes: 1002, maxBytes: enough })
  })

  test('exponentially shared parts are not expanded', () => {
    let value: unknown = []
    for (let level = 0; level < 60; level++) value = [value, value]
    let fields: unknown = {}
    for (let level = 0; level < 60; level++) fields = { a: fields, b: fields }

    expect(faultOf(() => jsonText(value, enough)).message).toContain('more than 1000 bytes')
    expect(faultOf(() => jsonText(fields, enough)).message).toContain('more than 1000 bytes')
  })

  test('a depth is allowed and one more is not', () => {
    expect(jsonText(nested(maxDepth), enough)).toHaveLength(2 * maxDepth)
    expect(faultOf(() => jsonText(nested(maxDepth + 1), enough)).facts).toEqual({ maxDepth })
  })
})

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

function copy(value: unknown, maxBytes: number) {
  return jsonCopy(value, { maxBytes, maxDepth })
}

function nested(depth: number): unknown {
  let value: unknown = []
  for (let level = 1; level < depth; level++) value = [value]
  return value
}

function faultOf(act: () => unknown): JsonFault {
  try {
    act()
  } catch (error) {
    if (error instanceof JsonFault) return error
    throw error
  }
  return expect.fail('it was taken')
}
