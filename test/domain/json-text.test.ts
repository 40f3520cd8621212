import { expect, test } from 'vitest'
import { JsonFault } from '../../src/domain/json.ts'
import { depthOfJson, parseJsonText } from '../../src/domain/json-text.ts'

test.each([
  ['12345678901234567890', '', '12345678901234567000'],
  ['{"a":[1,{"id":9007199254740993}]}', 'a.1.id', '9007199254740992'],
  ['{"x":"9007199254740993,[{","n":[0.1,-1e400]}', 'n.1', '-Infinity'],
  ['[1e-400]', '0', '0'],
  ['{"pi":3.14159265358979323846}', 'pi', '3.141592653589793'],
  ['{"a\\"b":{"c":1},"d":12345678901234567.89}', 'd', '12345678901234568'],
  [`[0.${'1'.repeat(2000)}]`, '0', '0.1111111111111111'],
  [`[0.${'1'.repeat(200)}]`, '0', '0.1111111111111111'],
])('%s is refused with its path and what it would become [S5-20]', (text, path, instead) => {
  const fault = faultOf(() => parseJsonText(text))

  expect(fault.path.join('.')).toBe(path)
  expect(fault.message).toContain(`would become ${instead}:`)
})

test.each([
  '9007199254740992',
  '-0.30000000000000004',
  '0.10000000000000001',
  '1.0000000000000000000',
  '100000000000000000000',
  '1e21',
  '1.5E+300',
  '5e-324',
  '0.0000000000000000000000',
  '-0e999',
  '0.1000000000000000055511151231257827021181583404541015625',
  `1${'0'.repeat(150)}`,
  '{"a":"12345678901234567890 \\" 1e999","b":[true,null,1]}',
])('%s is read as it was written [S5-20]', (text) => {
  expect(parseJsonText(text)).toEqual(JSON.parse(text))
})

test('a text that is not JSON is a syntax error', () => {
  expect(() => parseJsonText('{"a":')).toThrow(SyntaxError)
})

function faultOf(act: () => unknown): JsonFault {
  try {
    act()
  } catch (error) {
    if (error instanceof JsonFault) return error
    throw error
  }
  return expect.fail('it was taken')
}

test.each([
  ['1', 0],
  ['[]', 1],
  ['{"a":[1,{"b":2}],"c":{}}', 3],
  ['["[[[[", "\\"[["]', 1],
  ['"never closed [[[', 0],
  [']]]][[', 0],
])('%s is nested %d levels deep [S5d-13]', (text, depth) => {
  expect(depthOfJson(text)).toBe(depth)
})
