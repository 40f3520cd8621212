/** Before the first and after the last test of a project whose files start servers of their own. */
import { leaveGround, shareGround } from './server-ground.ts'

export default function shareServers(): () => Promise<void> {
  shareGround()
  return leaveGround
}
