/** The types of the package as its users get them, read from the declarations that were built. */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseAst } from 'rolldown/parseAst'

/** A node of the syntax tree; only what is read here. */
interface Node {
  readonly type: string
  readonly start: number
  readonly [field: string]: unknown
}

interface Declarations {
  readonly text: string
  /** By name; overloads of a function are several. */
  readonly declared: Map<string, Node[]>
  /** What a local name stands for: another file and the name there. */
  readonly imported: Map<string, Place>
}

interface Place {
  readonly file: string
  readonly name: string
}

export interface Export extends Place {
  /** The name that users know it by. */
  readonly as: string
}

const files = new Map<string, Declarations>()

/** Everything that `index.d.ts` exports, with the file that declares it. */
export function exportsOf(index: string): Export[] {
  const { body } = parse(readFileSync(index, 'utf8'))
  return body.flatMap((node) => {
    const source = (node.source as Node | null)?.value
    if (node.type !== 'ExportNamedDeclaration' || typeof source !== 'string') return []
    return (node.specifiers as Node[]).map((each) => ({
      file: fileOf(index, source),
      name: nameOf(each.local),
      as: nameOf(each.exported),
    }))
  })
}

/** What an export declares without a sentence: itself, or its methods, fields and options. */
export function withoutSentence({ file, name, as }: Export): string[] {
  const { text, declared } = declarationsIn(file)
  return (declared.get(name) ?? []).flatMap((node) => [
    ...(hasSentence(text, node) ? [] : [as]),
    ...membersOf(node)
      .filter(
        (member) => !hasSentence(text, member) && !isInherited(member, declared.get(nameOf(node.superClass))),
      )
      .map((member) => `${as}.${nameOf(member.key)}`),
  ])
}

/** Types of this package that an export refers to, each with the file that declares it. */
export function referencesOf({ file, name }: Export): Place[] {
  const { declared, imported } = declarationsIn(file)
  const places = new Map<string, Place>()
  for (const node of declared.get(name) ?? []) {
    // An alias has the name itself, whatever it is computed from.
    if (node.type === 'TSTypeAliasDeclaration') continue
    for (const reference of referencesIn(node)) {
      const place = imported.get(reference) ?? (declared.has(reference) ? { file, name: reference } : null)
      if (place) places.set(`${place.file} ${place.name}`, place)
    }
  }
  return [...places.values()]
}

function declarationsIn(file: string): Declarations {
  const known = files.get(file)
  if (known) return known
  const text = readFileSync(file, 'utf8')
  const declared = new Map<string, Node[]>()
  const imported = new Map<string, Place>()
  for (const node of parse(text).body) {
    if (node.type === 'ImportDeclaration') {
      const source = (node.source as Node).value as string
      if (!source.startsWith('.')) continue
      for (const each of node.specifiers as Node[])
        imported.set(nameOf(each.local), { file: fileOf(file, source), name: nameOf(each.imported) })
      continue
    }
    const declaration = (node.declaration ?? node) as Node
    const names =
      declaration.type === 'VariableDeclaration'
        ? (declaration.declarations as Node[]).map(({ id }) => nameOf(id))
        : [nameOf(declaration.id)]
    // The comment stands before `export`.
    for (const each of names)
      declared.set(each, [...(declared.get(each) ?? []), { ...declaration, start: node.start }])
  }
  const found = { text, declared, imported }
  files.set(file, found)
  return found
}

function parse(text: string): { body: Node[] } {
  return parseAst(text, { lang: 'dts' }) as unknown as { body: Node[] }
}

function fileOf(from: string, source: string): string {
  return join(dirname(from), source.replace(/\.ts$/, '.d.ts'))
}

function nameOf(node: unknown): string {
  return ((node as { name?: string } | null)?.name ?? '') as string
}

function hasSentence(text: string, { start }: Node): boolean {
  return text.slice(0, start).trimEnd().endsWith('*/')
}

/** Editors show the sentence of the class above. */
function isInherited(member: Node, above: readonly Node[] | undefined): boolean {
  return above?.flatMap(membersOf).some(({ key }) => nameOf(key) === nameOf(member.key)) ?? false
}

/** Methods and fields that users see. A symbol, such as that of `await using`, needs no words. */
function membersOf(node: Node): Node[] {
  const { body } = node as { body?: { body?: Node[] } }
  if (node.type !== 'ClassDeclaration' && node.type !== 'TSInterfaceDeclaration') return []
  return (body?.body ?? []).filter(
    (member) =>
      member.key !== undefined &&
      (member.key as Node).type === 'Identifier' &&
      member.computed !== true &&
      nameOf(member.key) !== 'constructor',
  )
}

/** Names of the types in it. Constructors do not count: only the package itself calls those. */
function referencesIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(referencesIn)
  if (typeof value !== 'object' || value === null) return []
  const node = value as Node
  if (node.type === 'MethodDefinition' && nameOf(node.key) === 'constructor') return []
  const names: Record<string, unknown> = {
    TSTypeReference: node.typeName,
    TSInterfaceHeritage: node.expression,
    TSClassImplements: node.expression,
  }
  // The name of another package's type is qualified, as in `z.input`.
  const own = node.type in names ? [nameOf(names[node.type])].filter((name) => name !== '') : []
  return [...own, ...Object.values(node).flatMap(referencesIn)]
}
