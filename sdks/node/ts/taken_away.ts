import type { Connection } from './connection.js'
import { PermissionDenied } from './errors.js'
import type { Ran } from './pulse.js'
import type { JobRecord } from './records.js'

type Where = Pick<JobRecord, 'attempt' | 'state'>

/** How long one waits to be told of a job that ended: ms. None at all would not ask. */
const MOMENT = 50

/** Asks whether that attempt of a job ended without its handler, or the job is gone. */
export function askTakenAway (on: Pick<Connection, 'call'>): (job: Ran) => Promise<boolean> {
  let mayRead = true
  return async ({ id, attempt }) => {
    // What is completed may be so by `completeIn`, after which its handler may go on.
    const isHeld = (job: Where | null) => job?.attempt === attempt && ['running', 'completed'].includes(job.state)
    if (mayRead) {
      try {
        return !isHeld(await on.call('job', { id }) as Where | null)
      } catch (error) {
        if (!(error instanceof PermissionDenied)) throw error
        mayRead = false
      }
    }
    // The access `worker` is enough to wait for a job: this hears only of the end of its last attempt.
    const ended = await on.call('wait', { id, timeout_ms: MOMENT }) as Where | null
    return ended !== null && !isHeld(ended)
  }
}
