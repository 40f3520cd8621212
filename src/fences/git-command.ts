/** Runs the git binary, without a shell. */
import { execFile } from 'node:child_process'
import { HoldfastError } from '../errors.ts'

export interface GitAnswer {
  readonly isDone: boolean
  readonly output: string
  /** What git said about a failure, for people to read; decisions are based on the state of the repository. */
  readonly complaint: string
}

export interface GitOptions {
  readonly directory: string
  readonly timeoutMs: number
}

/**
 * A hook runs with variables that name its own repository; with them, every command would go there. A password prompt
 * would wait for ever, because nobody is there to answer it.
 */
const environment: NodeJS.ProcessEnv = {
  GIT_DIR: undefined,
  GIT_WORK_TREE: undefined,
  GIT_COMMON_DIR: undefined,
  GIT_INDEX_FILE: undefined,
  GIT_OBJECT_DIRECTORY: undefined,
  GIT_ALTERNATE_OBJECT_DIRECTORIES: undefined,
  GIT_QUARANTINE_PATH: undefined,
  GIT_PREFIX: undefined,
  GIT_TERMINAL_PROMPT: '0',
}

export function tryGit({ directory, timeoutMs }: GitOptions, args: string[], input = ''): Promise<GitAnswer> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      'git',
      args,
      {
        cwd: directory,
        env: { ...process.env, ...environment },
        timeout: timeoutMs,
        maxBuffer: 1024 * 1024,
      },
      (error, output, complaint) => {
        // A number is git's own exit code; anything else means that git did not run to completion.
        if (error && typeof error.code !== 'number') reject(unfinished(args, directory, error))
        else resolve({ isDone: error === null, output: output.trim(), complaint: complaint.trim() })
      },
    )
    // If git ends before it has read everything, its exit code tells more than the broken pipe.
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
  })
}

/** Returns the output of a command that has no reason to fail in a sound repository. */
export async function runGit(options: GitOptions, args: string[], input?: string): Promise<string> {
  const { isDone, output, complaint } = await tryGit(options, args, input)
  if (isDone) return output
  throw new HoldfastError('STORE_UNAVAILABLE', {
    what: `git ${args[0]} failed in ${options.directory}: ${complaint.slice(0, 500)}`,
    next: 'fix the cause and try again; no ref was changed by this step',
    facts: { directory: options.directory },
  })
}

function unfinished(args: string[], directory: string, cause: Error): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `git ${args[0]} did not finish in ${directory}`,
    next: 'check the refs before you try again: the change may have happened',
    facts: { directory },
    cause,
  })
}
