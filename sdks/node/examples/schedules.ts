import { schedule } from 'windlass'
import { sendMail, windlass } from './jobs.js'

await windlass.migrate()

const report = schedule({ name: 'report', cron: '30 6 * * MON-FRI', zone: 'Europe/Berlin', job: sendMail, args: { to: 'boss@example.com' } })
await windlass.schedules.put([report], { source: 'shop', prune: true }) // what else is of this source is removed
const ticks = await windlass.schedules.preview(report, { count: 3 })
const id = await windlass.schedules.run('report') // once more, now

console.log(ticks.length, (await windlass.job(id))!.kind)
