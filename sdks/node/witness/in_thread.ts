import { inThread } from 'windlass'
import { handle, rare } from './acts.js'

export default inThread(rare, handle)
