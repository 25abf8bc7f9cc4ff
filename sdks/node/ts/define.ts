import { InvalidOption } from './errors.js'
import { onlyKnown } from './known.js'
import { KNOWN, type JobOptions } from './options.js'
import type { InputOf, OutputOf, StandardSchema } from './schema.js'

/** A kind of job: its name, its args, and what holds for its jobs unless an enqueue says otherwise. Made by {@link defineJob}. */
export interface JobDefinition<Input = unknown, Output = Input> {
  /** What to do: the name that workers know it by. */
  readonly kind: string
  /** Checks args where they are enqueued and where they are worked. */
  readonly schema?: StandardSchema<Input, Output> | undefined
  /** What holds for its jobs unless an enqueue says otherwise. */
  readonly options: JobOptions
  /** Of the type alone; it is never there. */
  readonly types?: { input: Input, output: Output } | undefined
}

/** What an enqueue of such a job takes. */
export type ArgsInput<J extends JobDefinition> = NonNullable<J['types']>['input']
/** What a handler of such a job gets. */
export type ArgsOf<J extends JobDefinition> = NonNullable<J['types']>['output']

/**
 * Defines a kind of job, with a schema (zod, valibot, arktype, any Standard Schema), or by a type alone.
 *
 * ```ts
 * const sendMail = defineJob('mail.send', { args: z.object({ to: z.email() }), queue: 'mail', maxAttempts: 5 })
 * const resize = defineJob<{ image: number, width: number }>('image.resize', { queue: 'images' })
 * ```
 *
 * With a schema, args are checked when they are enqueued and again when they are worked. What is stored is what was enqueued: transforms
 * and defaults of the schema are applied to what the handler gets.
 */
export function defineJob<S extends StandardSchema> (kind: string, options: JobOptions & { args: S }): JobDefinition<InputOf<S>, OutputOf<S>>
export function defineJob<Args = Record<string, never>> (kind: string, options?: JobOptions): JobDefinition<Args>
export function defineJob (kind: string, { args: schema, ...options }: JobOptions & { args?: StandardSchema | undefined } = {}): JobDefinition {
  if (typeof kind !== 'string' || kind === '') {
    throw new InvalidOption('invalid_option', `a job needs a kind, a text such as 'mail.send', got ${kind === '' ? "''" : typeof kind}`)
  }
  if (schema !== undefined && typeof schema['~standard']?.validate !== 'function') {
    throw new InvalidOption('invalid_option',
      `the args of job "${kind}" must be a Standard Schema, such as z.object({ ... }); for a type alone write defineJob<{ ... }>('${kind}')`)
  }
  onlyKnown(options, KNOWN, `a job of kind "${kind}"`)
  return Object.freeze({ kind, options, ...schema && { schema } })
}
