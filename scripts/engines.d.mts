export interface EngineProject {
  readonly name: string
  readonly suite: string
  readonly engine: string
}
export declare function projectsOf(suite: string): EngineProject[]
export declare function chosenProjects(suites: readonly string[]): EngineProject[]
export declare const engineSuites: readonly string[]
export declare function filesOf(project: Omit<EngineProject, 'name'>, isQuick: boolean): string[]
export declare function filesLeftOut(project: Omit<EngineProject, 'name'>, isQuick: boolean): string[]
