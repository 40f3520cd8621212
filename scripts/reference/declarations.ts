/** What the package exports, as its source declares it: signatures and doc comments, without bodies. */
import { readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { parseSync } from 'rolldown/utils'

export interface Member {
  readonly name: string
  /** A property's type; a method's parameters and result. */
  readonly type: string
  readonly isMethod: boolean
  readonly isOptional: boolean
  readonly doc: string
}

export interface Declaration {
  /** The name it is exported under. */
  readonly name: string
  readonly kind: 'class' | 'interface' | 'function' | 'type' | 'const'
  readonly typeParameters: string
  /** The types it extends, as written. */
  readonly parents: readonly string[]
  readonly doc: string
  /** A function's parameters and result; the text of a type. */
  readonly type: string
  readonly members: readonly Member[]
}

/** The part of a syntax tree that is read here. */
interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

interface Source {
  readonly path: string
  readonly text: string
  readonly body: readonly Node[]
  readonly comments: readonly { type: string; value: string; start: number; end: number }[]
}

/** Every export of an entry point, in the order of its list. */
export function exportsOf(entry: string): Declaration[] {
  return load(entry).body.flatMap((node) => {
    if (node.type !== 'ExportNamedDeclaration' || !node.source) return []
    const from = posix.join(posix.dirname(entry), String((node.source as Node).value))
    return (node.specifiers as readonly Node[]).map((specifier) =>
      find(from, nameOf(specifier.local as Node), nameOf(specifier.exported as Node)),
    )
  })
}

const sources = new Map<string, Source>()

function load(path: string): Source {
  const known = sources.get(path)
  if (known) return known
  const text = readFileSync(path, 'utf8')
  const { program, comments } = parseSync(path, text)
  const source = { path, text, body: program.body as unknown as Node[], comments }
  sources.set(path, source)
  return source
}

/** Follows a name through files that only pass it on. */
function find(path: string, local: string, name: string): Declaration {
  const source = load(path)
  const declared = source.body.filter((node) => {
    const declaration = node.declaration as Node | undefined
    return declaration !== undefined && declaration !== null && declaredName(declaration) === local
  })
  const last = declared.at(-1)
  // Of a function with overloads only the last is its implementation.
  if (last)
    return declare(source, declared.find(({ start }) => docAt(source, start) !== '') ?? last, last, name)
  for (const node of source.body) {
    if (node.type !== 'ExportNamedDeclaration' || !node.source) continue
    const passed = (node.specifiers as readonly Node[]).find(
      (each) => nameOf(each.exported as Node) === local,
    )
    const from = posix.join(posix.dirname(path), String((node.source as Node).value))
    if (passed) return find(from, nameOf(passed.local as Node), name)
  }
  throw new Error(`${path} does not declare ${local}`)
}

function declaredName(declaration: Node): string | null {
  if (declaration.type === 'VariableDeclaration') {
    const [first] = declaration.declarations as readonly Node[]
    return first ? nameOf(first.id as Node) : null
  }
  return declaration.id ? nameOf(declaration.id as Node) : null
}

const kinds: Readonly<Record<string, Declaration['kind']>> = {
  ClassDeclaration: 'class',
  TSInterfaceDeclaration: 'interface',
  FunctionDeclaration: 'function',
  TSDeclareFunction: 'function',
  TSTypeAliasDeclaration: 'type',
  VariableDeclaration: 'const',
}

function declare(source: Source, documented: Node, node: Node, name: string): Declaration {
  const declaration = node.declaration as Node
  const kind = kinds[declaration.type]
  if (!kind) throw new Error(`${source.path}: ${name} is a ${declaration.type}`)
  return {
    name,
    kind,
    typeParameters: textOf(source, declaration.typeParameters),
    parents: parentsOf(source, declaration),
    doc: docAt(source, documented.start),
    type: typeOf(source, declaration, kind),
    members: membersOf(source, declaration, kind),
  }
}

function parentsOf(source: Source, declaration: Node): string[] {
  if (declaration.superClass) return [textOf(source, declaration.superClass)]
  return ((declaration.extends ?? []) as readonly Node[]).map((each) => textOf(source, each))
}

function typeOf(source: Source, declaration: Node, kind: Declaration['kind']): string {
  if (kind === 'function') return signatureOf(source, declaration)
  return kind === 'type' ? textOf(source, declaration.typeAnnotation) : ''
}

function membersOf(source: Source, declaration: Node, kind: Declaration['kind']): Member[] {
  if (kind !== 'class' && kind !== 'interface') return []
  const nodes = ((declaration.body as Node).body as readonly Node[]).filter(isPublic)
  const members = nodes.map((node) => memberOf(source, node))
  const overloaded = new Set(nodes.filter(isOverload).map((node) => nameOf(node.key as Node)))
  return members
    .filter(({ name }, index) => !(overloaded.has(name) && !isOverload(nodes[index] as Node)))
    .filter(({ doc }) => !doc.includes('@internal'))
}

function isOverload({ value }: Node): boolean {
  return (value as Node | null | undefined)?.type === 'TSEmptyBodyFunctionExpression'
}

/** What is only declared again, with a narrower type, is described where it is declared first. */
function isPublic({ type, key, kind, declare, accessibility, static: isStatic }: Node): boolean {
  if (declare) return false
  const isNamed = key !== undefined && (key as Node).type !== 'PrivateIdentifier'
  return (
    isNamed && type !== 'StaticBlock' && kind !== 'constructor' && !isStatic && accessibility !== 'private'
  )
}

function memberOf(source: Source, node: Node): Member {
  const isMethod = ['MethodDefinition', 'TSMethodSignature'].includes(node.type) && node.kind !== 'get'
  const value = (node.value ?? node) as Node
  const key = textOf(source, node.key)
  return {
    name: node.computed ? `[${key}]` : key,
    type: isMethod ? signatureOf(source, value) : propertyType(source, node),
    isMethod,
    isOptional: node.optional === true,
    doc: docAt(source, node.start),
  }
}

function propertyType(source: Source, node: Node): string {
  const annotation = node.typeAnnotation ?? (node.value as Node | null)?.returnType
  return textOf(source, (annotation as Node | null)?.typeAnnotation)
}

/** Parameters with a default are optional for the caller. */
function signatureOf(source: Source, callable: Node): string {
  const parameters = (callable.params as readonly Node[]).map((each) => parameterOf(source, each)).join(', ')
  const result = textOf(source, (callable.returnType as Node | null)?.typeAnnotation)
  const generics = textOf(source, callable.typeParameters)
  return `${generics}(${parameters})${result === '' ? '' : `: ${result}`}`
}

function parameterOf(source: Source, node: Node): string {
  if (node.type === 'AssignmentPattern') return named(source, node.left as Node, '?')
  if (node.type === 'RestElement')
    return `...${named(source, node.argument as Node, '')}${annotationOf(source, node)}`
  return named(source, node, node.optional ? '?' : '')
}

/** A parameter that is taken apart at once has no name of its own. */
function named(source: Source, node: Node, mark: string): string {
  const name = node.type === 'Identifier' ? nameOf(node) : 'options'
  return `${name}${mark}${annotationOf(source, node)}`
}

function annotationOf(source: Source, node: Node): string {
  const type = textOf(source, (node.typeAnnotation as Node | null)?.typeAnnotation)
  return type === '' ? '' : `: ${type}`
}

function nameOf(node: Node): string {
  return String(node.name ?? node.value)
}

/** The source of a node on one line, without comments. */
function textOf(source: Source, node: unknown): string {
  if (!node) return ''
  const { start, end } = node as Node
  const inside = source.comments.filter((comment) => comment.start >= start && comment.end <= end)
  let text = ''
  let at = start
  for (const comment of inside) {
    text += source.text.slice(at, comment.start)
    at = comment.end
  }
  return `${text}${source.text.slice(at, end)}`.replace(/\s+/g, ' ').trim()
}

/** The doc comment that ends where a node starts, on one line. */
function docAt(source: Source, start: number): string {
  const comment = source.comments.findLast(({ end }) => end <= start)
  const isDoc = comment?.type === 'Block' && comment.value.startsWith('*')
  if (!isDoc || source.text.slice(comment.end, start).trim() !== '') return ''
  return comment.value
    .split('\n')
    .map((line) => line.replace(/^\s*\*+ ?/, '').trim())
    .join(' ')
    .replace(/```[\s\S]*$/, '')
    .replace(/\s+/g, ' ')
    .trim()
}
