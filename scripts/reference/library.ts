/** docs/reference/library.md: every public call with its sentence, as the source declares it. */
import { type Declaration, exportsOf, type Member } from './declarations.ts'
import { spelledOut } from './input.ts'
import { code, heading, table } from './markdown.ts'
import { isOptions } from './options.ts'

export function libraryPage(): string {
  const all = exportsOf('src/index.ts')
  assertSentences(all)
  const of = (kind: Declaration['kind']) => all.filter((each) => each.kind === kind)
  const classes = of('class')
  const isError = ({ name }: Declaration) => name.endsWith('Error')
  const isCallable = ({ members }: Declaration) => members.some(({ isMethod }) => isMethod)
  const handles = [...classes.filter((each) => !isError(each)), ...of('interface').filter(isCallable)]
  const shapes = all.filter(
    (each) =>
      (each.kind === 'interface' || each.kind === 'type') && !isOptions(each) && !handles.includes(each),
  )
  return [
    ...heading('Library', 'the types and doc comments in `src/`'),
    "Everything that `import { … } from 'holdfast'` offers. Options are on [a page of their own](options.md), and so are [errors](errors.md), [events](events.md) and [log lines](log.md). Each call works the same on SQLite and PostgreSQL.",
    '',
    '## Functions',
    '',
    ...table(
      ['call', 'what it does'],
      of('function').map(({ name, type, doc }) => [code(`${name}${type}`), doc]),
    ),
    ...handles.flatMap(handle),
    '',
    '## Errors',
    '',
    ...table(
      ['class', 'when'],
      classes.filter(isError).map(({ name, doc }) => [code(name), doc]),
    ),
    '',
    '## Types',
    '',
    'What the calls take and return. Your editor shows their fields.',
    '',
    ...table(
      ['type', 'what it is'],
      [...shapes, ...of('const')].map(({ name, typeParameters, doc }) => [
        code(`${name}${typeParameters}`),
        doc,
      ]),
    ),
    '',
  ].join('\n')
}

function handle({ name, typeParameters, doc, members }: Declaration): string[] {
  return [
    '',
    `## ${name}`,
    '',
    `${code(`${name}${typeParameters}`)}: ${doc}`,
    '',
    ...table(
      ['call', 'what it does'],
      members.map((member) => [code(callOf(member)), member.doc]),
    ),
  ]
}

function callOf({ name, type, isMethod, isOptional }: Member): string {
  const mark = isOptional ? '?' : ''
  const spelled = spelledOut(type)
  return isMethod || type === '' ? `${name}${mark}${spelled}` : `${name}${mark}: ${spelled}`
}

/** Whatever a program can name, call or set has a sentence in the code. */
function assertSentences(all: readonly Declaration[]): void {
  const silent = all.flatMap((each) => {
    const own = each.doc === '' ? [each.name] : []
    const isWhole = each.kind === 'class' || isOptions(each)
    const inside = each.members.filter(({ doc, isMethod }) => doc === '' && (isWhole || isMethod))
    return [...own, ...inside.map(({ name }) => `${each.name}.${name}`)]
  })
  if (silent.length > 0) throw new Error(`without a doc comment: ${silent.join(', ')}`)
}
