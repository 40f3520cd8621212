/** Finds what an editor shows for the package's options, by asking the compiler as an editor does. */
import { dirname, resolve } from 'node:path'
import { API, type Checker, type Symbol as Named, SignatureKind, type Type } from 'typescript/unstable/sync'

export interface ShownOption {
  /** The call or type that takes it, and its name. */
  readonly option: string
  /** Empty if the editor shows nothing but its type. */
  readonly sentence: string
}

/** Every option that a method takes or that an exported type of options has. */
export function shownOptions(declarations: string): ShownOption[] {
  const api = new API()
  try {
    const snapshot = api.updateSnapshot({ openProjects: [resolve('tsconfig.json')] })
    const [project] = snapshot.getProjects()
    if (!project) throw new Error('the compiler opened no project')
    const { checker, program } = project
    const file = program.getSourceFile(resolve(declarations))
    const module = file && checker.getSymbolAtLocation(file)
    if (!module) throw new Error(`the compiler does not know ${declarations}`)
    return checker.getExportsOfModule(module).flatMap((each) => {
      const type = checker.getDeclaredTypeOfSymbol(checker.getAliasedSymbol(each))
      if (/(?:Options|Request)$/.test(each.name)) return optionsIn(checker, each.name, type)
      const ownMembers = (of: Type) =>
        checker
          .getPropertiesOfType(of)
          .filter(({ declarations }) => declarations.some(({ path }) => path.startsWith(dirname(file.path))))
      return ownMembers(type).flatMap((member) => {
        const at = `${each.name}.${member.name}`
        // A group of calls, such as `hf.recovery`, is a property with its own methods.
        const grouped = ownMembers(checker.getTypeOfSymbol(member) as Type)
        return [member, ...grouped].flatMap((call) =>
          takenBy(checker, call === member ? at : `${at}.${call.name}`, call),
        )
      })
    })
  } finally {
    api.close()
  }
}

/** The options of a method; they are its last argument. */
function takenBy(checker: Checker, call: string, method: Named): ShownOption[] {
  const type = checker.getTypeOfSymbol(method)
  const signatures = type ? checker.getSignaturesOfType(type, SignatureKind.Call) : []
  return signatures.flatMap((signature) => {
    const last = signature.getParameters().at(-1)
    if (!last || !/^(?:options|changes|__0)$/.test(last.name)) return []
    const taken = checker.getTypeOfSymbol(last)
    return taken ? optionsIn(checker, call, checker.getNonNullableType(taken) as Type) : []
  })
}

function optionsIn(checker: Checker, at: string, type: Type): ShownOption[] {
  return checker.getPropertiesOfType(type).map((option) => ({
    option: `${at} ${option.name}`,
    sentence: checker.getDocumentationCommentOfSymbol(option),
  }))
}
