/** The public exports of `holdfast/fences`, listed by hand: adding a line is a decision. */
export { type FileFenceOptions, writeFileFenced } from './file.ts'
export { type GitPush, type GitUpdate, pushGitRef, updateGitRef } from './git.ts'
export type { FencedResource, Grant } from './grant.ts'
export {
  type Admission,
  createHttpFence,
  fenceHeaders,
  type HttpFence,
  type HttpFenceOptions,
  type RequestHeaders,
} from './http.ts'
export {
  createSqlFence,
  type SqlFence,
  type SqlFenceOptions,
  type SqlQuery,
  type SqlStatement,
} from './sql.ts'
