/** What the handler of a batch returned: nothing, or one outcome for each of its jobs. Throws what says that it is something else. */
export function eachOf (values: unknown, count: number): unknown[] | undefined {
  if (values === undefined || (Array.isArray(values) && values.length === count)) return values
  const got = Array.isArray(values) ? `${values.length} outcomes` : typeof values
  throw new TypeError(`the handler of a batch returns nothing, or an array of one outcome for each of its ${count} jobs; it returned ${got}`)
}
