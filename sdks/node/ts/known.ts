import { InvalidOption } from './errors.js'

/** Refuses what is no object of options, and names that there are not: a typo would go unheard. */
export function onlyKnown (given: unknown, known: readonly string[], what: string): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new InvalidOption('invalid_option', `the options of ${what} are an object with ${known.join(', ')}; got ${shown(given)}`)
  }
  const odd = Object.keys(given).find(name => !known.includes(name))
  if (odd !== undefined) throw new InvalidOption('invalid_option', `"${odd}" is no option of ${what}; options are ${known.join(', ')}`)
}

/** What was given in the place of something else, in few words. */
export function shown (given: unknown): string {
  if (given === null) return 'null'
  if (Array.isArray(given)) return 'an array'
  return typeof given === 'string' ? JSON.stringify(given) : typeof given === 'object' ? 'an object' : String(given)
}
