import { InvalidArgs } from './errors.js'

/**
 * The JSON text of a value. What JSON would drop or change without a word is refused: NaN and infinities would become null. `what` names
 * the value in errors.
 */
export function encode (value: unknown, what: string): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    throw new InvalidArgs('invalid_args', `${what} cannot be written as JSON: ${cause instanceof Error ? cause.message : cause}`, { cause })
  }
  if (text === undefined) throw new InvalidArgs('invalid_args', `${what} cannot be written as JSON: it is ${typeof value}`)
  // They leave a null, so a text without one has none of them.
  if (text.includes('null')) refuseLostNumbers(value, what)
  return text
}

function refuseLostNumbers (value: unknown, what: string): void {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new InvalidArgs('invalid_args', `${what} contains ${value}, which JSON cannot say: write it as a string or null`)
  }
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return
  for (const part of Object.values(value)) refuseLostNumbers(part, what)
}
