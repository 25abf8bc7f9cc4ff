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
  if (process.listenerCount('unhandledRejection') > 0) return () => {}
  const listen = (reason: unknown) => console.error('windlass: a promise that nobody waits for was rejected:', reason)
  process.on('unhandledRejection', listen)
  return () => { process.off('unhandledRejection', listen) }
}
