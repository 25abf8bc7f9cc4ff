import { inThread } from 'windlass'
import { resize } from './jobs.js'

export default inThread(resize, ({ image, width }, job) => { // may compute for long: each thread runs one job at a time
  job.progress(50)
  return `${image}@${width}.png`
})
