import { createHash } from 'node:crypto'

/** The canonical form of a JSON value, as conformance/README.md says; written for each language anew. */
export function canonical (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  // Texts compare by their UTF-16 units.
  const fields = Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1)
  return `{${fields.map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(',')}}`
}

export function digest (value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex')
}
