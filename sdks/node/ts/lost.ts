/** What a part of a value is that JSON loses, and what to write instead. */
type Test = (part: unknown) => readonly [string, string] | undefined

const OR_NULL = 'write it as a string or null'

/** Numbers and times that become null. */
export const LOST_NUMBERS: Test = part => {
  if (typeof part === 'number' && !Number.isFinite(part)) return [String(part), OR_NULL]
  if (part instanceof Date && Number.isNaN(part.getTime())) return ['an invalid Date', OR_NULL]
  return undefined
}

const INSTEAD: Record<string, string> = {
  Map: 'write Object.fromEntries(map)', Set: 'write [...set]', Promise: 'await it first', RegExp: 'write its source', Error: 'write its message',
  WeakMap: 'leave it out', WeakSet: 'leave it out', ArrayBuffer: "write Buffer.from(bytes).toString('base64')", FormData: 'write Object.fromEntries(form)',
  Headers: 'write Object.fromEntries(headers)', URLSearchParams: 'write String(params)', Blob: 'write its text or base64',
  Response: 'write what it brought, such as await response.json()', Request: 'write what it brought, such as await request.json()',
}

/** Objects that become an empty one, and bytes, which become one of numbered fields, or what a Buffer says of itself. */
export const EMPTIED: Test = part => {
  if (typeof part !== 'object' || part === null) return undefined
  if (ArrayBuffer.isView(part) && (!saysItself(part) || (part.toJSON() as { type?: unknown } | null)?.type === 'Buffer')) return [named(part.constructor.name), INSTEAD.ArrayBuffer!]
  if (saysItself(part) || Object.keys(part).length > 0) return undefined
  const name = Object.keys(INSTEAD).find(name => part instanceof (globalThis as unknown as Record<string, new () => object>)[name]!)
  if (name !== undefined) return [named(name), INSTEAD[name]!]
  // A generator, or what map.keys() gives.
  const isIterated = (Symbol.iterator in part || Symbol.asyncIterator in part) && !Array.isArray(part) && !(part instanceof String)
  return isIterated ? ['an iterator', 'write an array of what it gives'] : undefined
}

/** What an object is without in JSON. */
export const LEFT_OUT: Test = part => ['undefined', 'function', 'symbol'].includes(typeof part) ? [typeof part === 'undefined' ? 'undefined' : `a ${typeof part}`, 'name a value, or leave its field out'] : undefined

/** The first part of a value that JSON loses, in words. `what` names the value. */
export function lost (value: unknown, test: Test, what: string): string | undefined {
  const found = first(value, test, '')
  if (found === undefined) return undefined
  const [at, [part, instead]] = found
  return `${part} in ${what}${at === '' ? '' : `, at ${at},`} has no JSON form: ${instead}`
}

function first (value: unknown, test: Test, at: string, isSaid = false): [string, readonly [string, string]] | undefined {
  const words = test(value)
  if (words !== undefined) return [at, words]
  if (typeof value !== 'object' || value === null) return undefined
  if (!isSaid && saysItself(value)) return first(value.toJSON(), test, at, true) // JSON does so once, too
  for (const [name, part] of Object.entries(value)) {
    const found = first(part, test, place(value, name, at))
    if (found !== undefined) return found
  }
  return undefined
}

function saysItself (part: object): part is { toJSON (): unknown } { return 'toJSON' in part && typeof part.toJSON === 'function' }

/** Where a part is. An array of one, as of the args of one job, is no place. */
function place (whole: object, name: string, at: string): string {
  if (Array.isArray(whole)) return whole.length === 1 ? at : `${at}[${name}]`
  return at === '' ? name : `${at}.${name}`
}

function named (name: string): string { return /^[AEIO]/.test(name) ? `an ${name}` : `a ${name}` }
