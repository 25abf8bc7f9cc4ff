import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { errorOf, WindlassError, type ErrorCode } from './errors.js'

/** What the addon exports. This file alone loads it; src/*.rs says what its parts do. */
interface Addon {
  version (): string
  checkJobs (jobs: string): void
  open (url: string, keys: string | undefined, isTest: boolean, bell: () => void): Promise<NativeClient>
  startWorker (client: NativeClient, spec: string, bell: () => void): Promise<NativeWorker>
  cli (args: string[]): number
  attachWorker (number: number, bell: () => void): NativeWorker
  panicForTest? (): void
  panicLaterForTest? (): Promise<void>
}

/** A connection to a store: operations by name, JSON text in and out. */
export interface NativeClient {
  start (ops: string[], payloads: string[], numbers: number[]): void
  answers (): NativeAnswers | null
  end (number: number): void
  travel (ms: number): void
  close (): Promise<void>
}

/** What calls answered, by their numbers; what failed under a negative one. */
export interface NativeAnswers {
  numbers: Int32Array
  texts: string[]
}

/** What handlers say of the jobs that they run. */
export interface NativeReports {
  progress (ticket: number, percent: number, note: string | null): void
  log (ticket: number, text: string): void
  checkpoint (ticket: number, value: string): Promise<string>
  lastCheckpoint (ticket: number): Promise<string>
  completeSql (ticket: number): string
}

/** A worker whose jobs this thread runs. */
export interface NativeWorker extends NativeReports {
  readonly number: number
  exchange (done: Float64Array, said: string | null, jobs: number, bytes: number): NativeBatch | null
  stop (): void
  abortNow (): void
  isDraining (): boolean
  leave (): void
  stats (): string
  untilIdle (): Promise<void>
}

/** What an exchange brought: see src/lent.rs. */
export interface NativeBatch {
  numbers: Float64Array
  known: number
  names: string[]
  args: string
  attributes?: string
  told?: string
  more: boolean
  closed: boolean
}

const require = createRequire(import.meta.url)
const version: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version
let loaded: Addon | undefined

/**
 * Where copies of this package find the addon that one of them loaded. There must not be two: each has a SQLite of its own, and two of these in
 * one process do not see each other's locks (sqlite.org/howtocorrupt.html, 2.2), so that jobs are handed out twice and outcomes lost.
 */
const ADDON = Symbol.for('windlass.addon')

/** The addon, loaded on first use: whoever only wants types or SQL needs none. */
export function addon (): Addon {
  return loaded ??= (globalThis as { [ADDON]?: Addon })[ADDON] ? ofAnotherCopy() : first()
}

function first (): Addon {
  const addon = checked(load())
  Object.defineProperty(globalThis, ADDON, { value: addon })
  return addon
}

function ofAnotherCopy (): Addon {
  const addon = (globalThis as { [ADDON]?: Addon })[ADDON]!
  const other = addon.version()
  if (other === version) return addon
  throw new WindlassError('unsupported', `this process has two copies of the package windlass: one of version ${other}, whose native part is loaded, and one of ` +
    `version ${version}; two native parts in one process would damage SQLite files: install one version (npm ls windlass says who asks for which)`)
}

function load (): Addon {
  const path = process.env.WINDLASS_NATIVE_PATH
  if (path) return require(path)
  const name = `@windlass/node-${platform()}`
  try {
    return require(name)
  } catch (cause) {
    throw new WindlassError('unsupported',
      `the native part of windlass for ${platform()} is not installed: the package ${name} is missing or does not load. ` +
      'Lock files that were made on another platform lose such packages (npm/cli #4828): delete node_modules and the lock file, ' +
      'and install again. Or let WINDLASS_NATIVE_PATH name the file of a build of your own', { cause })
  }
}

function platform (): string {
  const { platform, arch } = process
  return platform === 'linux' ? `${platform}-${arch}-${hasMusl() ? 'musl' : 'gnu'}` : `${platform}-${arch}`
}

/** Whether this Linux is one of musl. A report of the process, which tells too, asks for the names of all connected sockets, one after the other, while the event loop stands still. */
function hasMusl (): boolean {
  try {
    return readFileSync('/usr/bin/ldd', 'latin1').includes('musl')
  } catch { // an image of a container without it
    return (process.report.getReport() as { header?: { glibcVersionRuntime?: string } }).header?.glibcVersionRuntime === undefined
  }
}

function checked (addon: Addon): Addon {
  const native = addon.version()
  if (native === version) return addon
  throw new WindlassError('unsupported',
    `the package windlass is version ${version} and its native part is version ${native}: install both of one version`)
}

/** Awaits a call of the addon, whose errors are JSON in a message. */
export async function answer<T> (call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    throw fromNative(error)
  }
}

/** Makes a call of the addon that answers at once. */
export function direct<T> (call: () => T): T {
  try {
    return call()
  } catch (error) {
    throw fromNative(error)
  }
}

function fromNative (error: unknown): unknown {
  if (error instanceof WindlassError || !(error instanceof Error)) return error
  try {
    const { code, message, ambiguous } = JSON.parse(error.message) as { code: ErrorCode, message: string, ambiguous?: boolean }
    return errorOf(code, message.replace('run `windlass migrate`', 'run `npx windlass --store URL migrate` or `await windlass.migrate()`')
      .replace('give it some by with_keyring', 'give it some by new Windlass(url, { keys })'), { ambiguous })
  } catch {
    return new WindlassError('internal', `a defect in Windlass, please report it: ${error.message}`, { cause: error })
  }
}
