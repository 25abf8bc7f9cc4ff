import { inspect } from 'node:util'
import { text } from './outcome.js'

/** How many frames of a stack, and how many causes, are kept with a job. */
const FRAMES = 10
const CAUSES = 3

/** What is kept of an error with the job: `Name: message`, the nearest frames, and its causes. Anything may be thrown. */
export function errorText (error: unknown): string {
  const told: string[] = []
  for (let at = error, depth = 0; depth <= CAUSES && (depth === 0 || at !== undefined); depth++) {
    try {
      told.push((depth > 0 ? 'caused by ' : '') + one(at))
      at = at instanceof Error ? at.cause : undefined
    } catch {
      told.push('the handler threw something that cannot be shown')
      break
    }
  }
  return text(told.join('\n'))
}

function one (error: unknown): string {
  if (typeof error === 'string') return error
  if (!(error instanceof Error)) return inspect(error, { depth: 2 })
  // As of a connection that was tried by several addresses, of whose error the message is empty.
  const errors: unknown = error instanceof AggregateError ? error.errors : undefined
  const parts = Array.isArray(errors) ? errors.slice(0, CAUSES).map(each => `one of ${errors.length}: ${brief(each)}`) : []
  const frames = String(error.stack ?? '').split('\n').filter(line => /^\s+at /.test(line))
  return [brief(error), ...parts, ...frames.slice(0, FRAMES)].join('\n')
}

function brief (error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : inspect(error, { depth: 2 })
}
