/** Turns an operation that is safe to run into the command line that runs it. */
import { quotedWord } from '../domain/shell-word.ts'
import type { FleetExplanation } from '../operations/fleet/explain.ts'
import { catalogue } from './catalogue.ts'
import { fieldsOf, optionName, positionalOf } from './field.ts'
import { operationOf } from './program.ts'
import type { Verb } from './verb.ts'

type Act = FleetExplanation['can'][number]

/** Verbs without a noun first: `recover` heals everything, the nouns' verbs only what is theirs. */
const groups = catalogue
  .filter(({ isHidden }) => !isHidden)
  .toSorted((one, other) => Number(other.isSingle ?? false) - Number(one.isSingle ?? false))

/** Null if no command does it. */
export async function commandFor({ operation, input }: Act): Promise<string | null> {
  for (const group of groups) {
    const verbs = await group.load()
    const verb = verbs.find((each) => each.operation === operation && !each.isHidden)
    if (verb)
      return ['holdfast', group.name, ...(group.isSingle ? [] : [verb.name]), ...words(verb, input)].join(' ')
  }
  return null
}

/** The known values, with placeholders such as `<reason>` for those that only the user can supply. */
function words(verb: Verb, input: Act['input']): string[] {
  const fields = fieldsOf(operationOf(verb) as NonNullable<ReturnType<typeof operationOf>>)
  const positional = positionalOf(verb, fields)
  const subjects = positional
    .filter((name) => name in input || name === verb.body || fields.get(name)?.isOptional !== true)
    .map((name) => (name in input ? quotedWord(String(input[name])) : `<${name}>`))
  const options = Object.entries(input)
    .filter(([name]) => !positional.includes(name))
    .flatMap(([name, value]) => [`--${optionName({ name })}`, quotedWord(String(value))])
  return [...subjects, ...options]
}
