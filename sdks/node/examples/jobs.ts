import { defineJob, Windlass } from 'windlass'
import { z } from 'zod'

// With a schema (zod, valibot, arktype: any Standard Schema), or by a type alone.
export const sendMail = defineJob('mail.send', { args: z.object({ to: z.email() }), queue: 'mail', maxAttempts: 5 })
export const resize = defineJob<{ image: number, width: number }>('image.resize', { queue: 'images', timeout: '2m' })

export const windlass = new Windlass(process.env.WINDLASS_STORE ?? 'sqlite:jobs.db') // or postgres://me@localhost/shop
