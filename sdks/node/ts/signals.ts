/** What asks a process to end. */
const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** Calls for each signal that asks the process to end, and tells how many came; until what it returns is called. */
export function onSignals (told: (count: number) => void): () => void {
  let count = 0
  const listen = () => told(++count)
  for (const signal of SIGNALS) process.on(signal, listen)
  return () => { for (const signal of SIGNALS) process.off(signal, listen) }
}

/** Keeps a forgotten promise of one handler from ending the process, with all the others in it; unless the program cares itself. */
export function keepAlive (): () => void {
  if (kept === 0 && process.listenerCount('unhandledRejection') > 0) return () => {}
  if (kept++ === 0) process.on('unhandledRejection', stray)
  return () => { if (--kept === 0) process.off('unhandledRejection', stray) }
}

/** How many workers want it kept. */
let kept = 0
const stray = (reason: unknown) => console.error('windlass: a promise that nobody waits for was rejected:', reason)
