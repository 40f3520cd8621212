// Writes the sentence of each input field above it in the types of the package, so that editors show it. A sentence
// is written once, in the schema's `.describe()`. Command-line help and the reference come from there too.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAst } from 'rolldown/parseAst'
import { loadSource } from './load-source.mjs'

/** `folder` has the declarations that tsc made of `src/`. */
export async function writeSentences(folder) {
  const { operations } = await loadSource('src/operations/table.ts')
  const { openOptions } = await loadSource('src/options.ts')
  writeInto(join(folder, 'options.d.ts'), (tree) => described(tree, objectsIn(openOptions)))
  for (const path of readdirSync(join(folder, 'operations'), { recursive: true })) {
    if (!path.endsWith('.d.ts')) continue
    writeInto(join(folder, 'operations', path), (tree) =>
      rowsIn(tree).flatMap(({ name, schema }) => described(schema, objectsIn(operations.get(name).input))),
    )
  }
}

function writeInto(file, sentencesIn) {
  const text = readFileSync(file, 'utf8')
  let written = ''
  let at = 0
  const sentences = sentencesIn(parseAst(text, { lang: 'dts' }))
  for (const { start, sentence } of sentences.toSorted((left, right) => left.start - right.start)) {
    written += `${text.slice(at, start)}/** ${sentence.replaceAll('*/', '*\\/')} */ `
    at = start
  }
  if (at > 0) writeFileSync(file, written + text.slice(at))
}

/** Every `Row<name, schema, …>`: the type of an operation. */
function rowsIn(tree) {
  return nodesIn(tree).flatMap((node) => {
    if ((node.qualifier ?? node.typeName)?.name !== 'Row') return []
    const [name, schema] = node.typeArguments.params
    return name.type === 'TSLiteralType' ? [{ name: name.literal.value, schema }] : []
  })
}

/** Where in the types a field of one of these objects stands, and what it means. */
function described(tree, objects) {
  return nodesIn(tree)
    .filter(({ type }) => type === 'TSTypeLiteral')
    .flatMap(({ members }) => {
      const names = sorted(members.map(({ key }) => key?.name))
      const object = objects.find(({ shape }) => sorted(Object.keys(shape)) === names)
      return object === undefined
        ? []
        : members.flatMap(({ key, start }) => {
            const sentence = sentenceOf(object.shape[key.name])
            return sentence === undefined ? [] : [{ start, sentence }]
          })
    })
}

/** The compiler does not keep their order. */
function sorted(names) {
  return names.toSorted().join()
}

/** A schema that only makes another one optional keeps its sentence. */
function sentenceOf(schema) {
  return schema.description ?? (schema._zod.def.innerType && sentenceOf(schema._zod.def.innerType))
}

/** An object schema and those inside it. */
function objectsIn(schema, found = new Set()) {
  if (found.has(schema)) return []
  found.add(schema)
  const { def } = schema._zod
  const inner = [
    ...Object.values(def.shape ?? {}),
    ...(def.options ?? []),
    def.innerType,
    def.element,
    def.in,
  ]
  const nested = inner.filter((each) => each !== undefined).flatMap((each) => objectsIn(each, found))
  return def.type === 'object' ? [schema, ...nested] : nested
}

function nodesIn(value) {
  if (Array.isArray(value)) return value.flatMap(nodesIn)
  if (typeof value !== 'object' || value === null) return []
  return [value, ...Object.values(value).flatMap(nodesIn)]
}
