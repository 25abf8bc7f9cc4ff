import { InvalidArgs } from './errors.js'

/** What zod, valibot, arktype and others have in common: https://standardschema.dev. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>
    readonly types?: { readonly input: Input, readonly output: Output } | undefined
  }
}

type Validated<Output> = { readonly value: Output, readonly issues?: undefined } | { readonly issues: readonly Issue[] }

interface Issue {
  readonly message: string
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined
}

/** What a schema takes. */
export type InputOf<S extends StandardSchema> = NonNullable<S['~standard']['types']>['input']
/** What a schema makes of it. */
export type OutputOf<S extends StandardSchema> = NonNullable<S['~standard']['types']>['output']

/**
 * What a schema makes of a value; at once, unless the schema is asynchronous. Throws `InvalidArgs`, which says what does not fit. Where the value is `secret` it says
 * no more than where: the words of a schema may show what stands there.
 */
export function validate<Output> (kind: string, schema: StandardSchema<unknown, Output>, value: unknown, secret = false): Output | Promise<Output> {
  const validated = schema['~standard'].validate(value)
  const read = (validated: Validated<Output>): Output => {
    if (!validated.issues) return validated.value
    const issues = validated.issues.map(issue => `${path(issue)}${secret ? 'it does not fit' : issue.message}`).join('; ')
    throw new InvalidArgs('invalid_args', `args of kind "${kind}" do not fit its schema: ${issues}`)
  }
  return validated instanceof Promise ? validated.then(read) : read(validated)
}

function path ({ path }: Issue): string {
  if (!path?.length) return ''
  return path.map(key => String(typeof key === 'object' ? key.key : key)).join('.') + ': '
}
