import { InvalidArgs, InvalidOption } from './errors.js'
import { lost, LOST_NUMBERS, EMPTIED } from './lost.js'

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
    const words = cause instanceof Error ? cause.message : String(cause)
    if (/BigInt/.test(words)) throw new refused(code, `a BigInt in ${what} has no JSON form: write String(value), or Number(value) where it is below 2 ** 53`, { cause })
    throw new refused(code, `${what} cannot be written as JSON: ${words}`, { cause })
  }
  if (text === undefined) throw new refused(code, `${what} cannot be written as JSON: it is ${typeof value}`)
  // They leave a null, so a text without one has none of them.
  const number = text.includes('null') ? lost(value, LOST_NUMBERS, what) : undefined
  if (number !== undefined) throw new refused(code, number)
  return text
}

/**
 * The same of what is stored for somebody who reads it later: args, results, checkpoints, meta. What JSON makes an empty object of is refused, too: a Map, a Set,
 * or a promise that somebody forgot to await. So are bytes, which it makes an object of numbered fields of, and a Buffer one with its type.
 */
export function encodeStored (args: unknown, what: string, refused: typeof InvalidArgs | typeof InvalidOption = InvalidArgs): string {
  const text = encode(args, what, refused)
  // They leave an empty object, a field named 0, or what a Buffer says, so a text without these has none of them.
  const object = text.includes('{}') || text.includes('{"0":') || text.includes('"type":"Buffer"') ? lost(args, EMPTIED, what) : undefined
  if (object !== undefined) throw new refused(refused === InvalidArgs ? 'invalid_args' : 'invalid_option', object)
  return text
}
