import { InvalidArgs, InvalidOption } from './errors.js'

/**
 * The JSON text of a value. What JSON would drop or change without a word is refused: NaN and infinities would become null. `what` names
 * the value in errors.
 */
export function encode (value: unknown, what: string, refused: typeof InvalidArgs | typeof InvalidOption = InvalidArgs): string {
  const code = refused === InvalidArgs ? 'invalid_args' : 'invalid_option'
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    throw new refused(code, `${what} cannot be written as JSON: ${cause instanceof Error ? cause.message : cause}`, { cause })
  }
  if (text === undefined) throw new refused(code, `${what} cannot be written as JSON: it is ${typeof value}`)
  // They leave a null, so a text without one has none of them.
  const lost = text.includes('null') ? lostNumber(value) : undefined
  if (lost !== undefined) throw new refused(code, `${what} contains ${lost}, which JSON cannot say: write it as a string or null`)
  return text
}

/**
 * The same of args. What JSON makes an empty object of is refused, too: a Map, a Set, or a promise that somebody forgot to await.
 */
export function encodeArgs (args: unknown, what: string): string {
  const text = encode(args, what)
  // They leave an empty object, so a text without one has none of them.
  const lost = text.includes('{}') ? emptied(args) : undefined
  if (lost !== undefined) throw new InvalidArgs('invalid_args', `${what} contain a ${lost}, of which JSON keeps nothing: ${INSTEAD[lost]}`)
  return text
}

const INSTEAD: Record<string, string> = {
  Map: 'write Object.fromEntries(map)', Set: 'write [...set]', Promise: 'await it first', RegExp: 'write its source', Error: 'write its message',
  WeakMap: 'leave it out', WeakSet: 'leave it out',
}

/** What kind of object it is that JSON empties, the first in a value. */
function emptied (value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return undefined
  const parts = Object.values(value)
  if (parts.length === 0) return Object.keys(INSTEAD).find(name => value instanceof (globalThis as unknown as Record<string, new () => object>)[name]!)
  for (const part of parts) {
    const lost = emptied(part)
    if (lost !== undefined) return lost
  }
  return undefined
}

/** The first number in a value that is none in JSON. */
function lostNumber (value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : value
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return undefined
  for (const part of Object.values(value)) {
    const lost = lostNumber(part)
    if (lost !== undefined) return lost
  }
  return undefined
}
