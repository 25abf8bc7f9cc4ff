/**
 * Has `instanceof` hold for objects of another copy of this package, too: a monorepo may well have two of them in one process, one that makes
 * an outcome and one that works the job. A name is one class, in every copy and version.
 */
export function brand (made: abstract new (...args: any[]) => object, name: string): void {
  const mark = Symbol.for(`windlass.${name}`)
  Object.defineProperty(made.prototype, mark, { value: true })
  const isMarked = (value: unknown): boolean => {
    try {
      return typeof value === 'object' && value !== null && mark in value
    } catch { // of a proxy, as one that was revoked: handlers may return or throw it
      return false
    }
  }
  Object.defineProperty(made, Symbol.hasInstance, { value: isMarked })
}
