import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

// From the root of the repository, which is three folders above build/conformance.
const FOLDER = join(import.meta.dirname, '../../../../conformance/vectors')

/** A file of conformance/vectors. */
export function vectors (file: string): any {
  return JSON.parse(readFileSync(join(FOLDER, file), 'utf8'))
}

export const files = readdirSync(FOLDER).sort()
