/** Where a job is in its life. */
export type JobState = 'scheduled' | 'available' | 'running' | 'retryable' | 'completed' | 'cancelled' | 'discarded'

/** A job as an operator sees it. What does not apply is null. */
export interface JobRecord {
  id: number
  state: JobState
  kind: string
  queue: string
  priority: number
  /** Attempts begun so far, a running one included. */
  attempt: number
  maxAttempts: number
  /** How many workers died while they held it. */
  crashCount: number
  args: unknown
  enqueuedAt: Date
  scheduledAt: Date | null
  claimedAt: Date | null
  claimedBy: number | null
  finishedAt: Date | null
  /** Why it was cancelled or discarded. */
  reason: string | null
  key: string | null
  meta: Record<string, unknown> | null
  tags: string[]
  timeoutMs: number | null
  retryPolicy: { backoff: string, baseMs: number, factor: number, maxMs: number, jitter: number } | null
  expiresAt: Date | null
  cost: number | null
  /** What its handler returned. */
  result: unknown
  /** Its failed attempts; empty in lists, and in what `wait` gives. */
  errors: Array<{ attempt: number, at: Date, error: string }>
  /** What its handlers said; not in lists, nor in what `wait` gives. */
  report?: HandlerReport
}

/** What handlers said of a job while it ran. */
export interface HandlerReport {
  reportedAt: Date
  attempt: number
  progress: { percent: number, note: string | null } | null
  checkpoint: unknown
  log: Array<{ at: Date, attempt: number, text: string }>
  logDropped: number
}

/** A page of jobs. It may hold fewer than asked for though more follow: go on with `next`. */
export interface JobPage { jobs: JobRecord[], next: string | null }

/** A queue as an operator sees it. The counts of `estimates` are estimates. */
export interface QueueRecord {
  name: string
  paused: boolean
  limits: { concurrency?: number, rate?: { count: number, periodMs: number, burst?: number } }
  available: number
  /** How many of the available jobs wait for a worker that knows their kind. */
  noHandler: number
  running: number
  scheduled: number
  retryable: number
  completed: number
  cancelled: number
  discarded: number
  /** Since when the job that waits longest could have started. */
  oldestAvailableAt: Date | null
  /** Since when the first of those waits that no worker knew. */
  oldestNoHandlerAt: Date | null
  estimates: JobState[]
  /** Whether its keys have limits, or had. */
  keyed: boolean
}

/** Which queues are listed. */
export interface QueueFilter { search?: string | undefined, after?: string | undefined, limit?: number | undefined }

/** A worker as an operator sees it. */
export interface WorkerRecord {
  id: number
  name: string
  queues: string[]
  startedAt: Date
  heartbeatAt: Date
  live: boolean
  draining: boolean
  /** What it runs; null where it did not say. */
  program: string | null
  appVersion: string | null
  /** What works its jobs: `TypeScript 0.1.0`. */
  engine: string | null
  /** What it uses and does lately, as it said with its last heartbeat; null where it does not know. */
  memoryBytes: number | null
  jobsPerSecond: number | null
}

/** The state of a store. */
export interface StoreStatus {
  store: string
  schemaVersion: number
  sizeBytes: number
  /** 1,000 at most: live ones first, the newest of each. */
  workers: WorkerRecord[]
  /** Whether more than those registered lately. */
  moreWorkers: boolean
}

/** What the user wrote: its fields keep their names. */
const RAW = new Set(['args', 'meta', 'result', 'checkpoint', 'definition', 'named', 'filter'])
const TIMES = new Set(['at', 'next_tick', 'last_tick', 'queued_tick', 'counted_until'])

/** An answer of the core as TypeScript has it: names in camel case, times as `Date`. */
export function record<T> (answer: unknown): T {
  return convert(answer) as T
}

function convert (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(convert)
  if (typeof value !== 'object' || value === null) return value
  const converted: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(value)) {
    const isTime = typeof field === 'string' && (name.endsWith('_at') || TIMES.has(name))
    converted[camel(name)] = isTime ? new Date(field) : RAW.has(name) ? field : convert(field)
  }
  return converted
}

function camel (name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}
