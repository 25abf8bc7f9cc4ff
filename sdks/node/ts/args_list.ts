import { InvalidArgs, InvalidOption } from './errors.js'

/** Refuses what is no list of args, one of each job, and a list with a hole, which somebody forgot to fill: something would be made of it without a word. */
export function needsList (args: unknown): asserts args is unknown[] {
  if (!Array.isArray(args)) throw new InvalidOption('invalid_option', `enqueueMany takes an array of args, one of each job, got ${typeof args}`)
  const hole = args.findIndex((_, nth) => !(nth in args))
  if (hole === -1) return
  throw new InvalidArgs('invalid_args', `job ${hole} of ${args.length}: the array of args has a hole there; write {} for a job without args; nothing was enqueued`)
}
