// What /api/v1 answers, as far as these pages read it: the serde shapes of windlass-core. Ids of jobs are strings, times are
// RFC 3339 in UTC. Fields that are not here are ignored.

export type JobState = 'scheduled' | 'available' | 'running' | 'retryable' | 'completed' | 'cancelled' | 'discarded';
export type Role = 'viewer' | 'operator' | 'admin';
export type Time = string;
/** Any JSON; a number that JavaScript would write in another way is kept as JSON.rawJSON. */
export type Json = unknown;

export interface Session {
  actor: string | null;
  role: Role | null;
  read_only: boolean;
  version?: string;
  store?: string | null;
  /** Where a trace is shown, with `{trace_id}` in it. */
  trace_url?: string | null;
  /** Whether one has to log in before anything else is answered. */
  login: boolean;
}

export interface RateLimit {
  count: number;
  period_ms: number;
  burst?: number;
}

export interface QueueLimits {
  concurrency?: number;
  rate?: RateLimit;
}

export interface QueueStats {
  name: string;
  paused: boolean;
  limits: QueueLimits;
  available: number;
  /** Of these, those that wait for a worker that knows their kind. */
  no_handler: number;
  running: number;
  scheduled: number;
  retryable: number;
  completed: number;
  cancelled: number;
  discarded: number;
  oldest_available_at: Time | null;
  /** Since when the first of those that no worker knows waits so. */
  oldest_no_handler_at: Time | null;
  estimates: JobState[];
  rate?: { claimed: number };
}

export interface KeyLimit {
  concurrency?: number;
  serial?: boolean;
  rate?: RateLimit;
  weight: number;
}

/** What holds for each key, `null` where keys have no limits, and a page of those that have limits of their own. */
export interface KeyLimitPage {
  default: KeyLimit | null;
  items: { key: string; limit: KeyLimit }[];
  next: string | null;
}

export interface QueueDetail extends QueueStats {
  workers?: WorkerRecord[];
}

export interface WorkerRecord {
  id: number | string;
  name: string;
  queues: string[];
  started_at: Time;
  heartbeat_at: Time;
  live: boolean;
  draining: boolean;
  program: string | null;
  app_version: string | null;
  engine: string | null;
  memory_bytes: number | null;
  jobs_per_second: number | null;
}

export type Totals = Record<JobState, number> & { estimates: JobState[] };

export interface Look {
  what: 'no_worker' | 'paused' | 'discarded' | 'worker_died' | 'schedule_error' | 'old' | 'no_handler' | (string & {});
  queue?: string;
  schedule?: string;
  count?: number;
  since?: Time;
}

export interface Overview {
  at: Time;
  store: string;
  schema_version: number;
  size_bytes: number;
  queue_count: number;
  paused_count: number;
  /** Where a job waits for the longest. */
  oldest: { queue: string; since: Time } | null;
  /** Those with the most to do, 200 at most. */
  queues: QueueStats[];
  workers: WorkerRecord[];
  /** Whether there are more than these. */
  more_workers: boolean;
  totals: Totals;
  needs_a_look: Look[];
}

export interface AttemptError {
  attempt: number;
  at: Time;
  error: string;
}

export interface HandlerReport {
  reported_at: Time;
  attempt: number;
  progress: { percent: number; note: string | null } | null;
  checkpoint: Json | null;
  log: { at: Time; attempt: number; text: string }[];
  log_dropped: number;
}

export interface RetryPolicy {
  backoff: 'fixed' | 'linear' | 'exponential';
  base_ms: number;
  factor: number;
  max_ms: number;
  jitter: number;
}

export interface JobRecord {
  id: string;
  state: JobState;
  kind: string;
  queue: string;
  priority: number;
  attempt: number;
  max_attempts: number;
  crash_count: number;
  args: Json;
  /** Whether values of `args` are hidden from this answer. */
  redacted?: boolean;
  /** Whether values were left out because they are long. */
  cut?: boolean;
  enqueued_at: Time;
  scheduled_at: Time | null;
  claimed_at: Time | null;
  claimed_by: number | string | null;
  finished_at: Time | null;
  reason: string | null;
  key: string | null;
  meta: Json | null;
  tags: string[];
  timeout_ms: number | null;
  retry_policy: RetryPolicy | null;
  expires_at: Time | null;
  cost: number | null;
  result: Json | null;
  errors: AttemptError[];
  report?: HandlerReport | null;
}

export interface JobPage {
  items: JobRecord[];
  next: string | null;
  /** False when the server stopped looking before the page was full: there may be more behind `next`. */
  complete: boolean;
}

export type Outcome = 'completed' | 'failed' | 'retried' | 'snoozed' | 'cancelled' | 'discarded' | 'rescued' | 'returned' | 'deleted';

/** How many jobs of a queue and a kind ended so, by the step. */
export interface Counted {
  queue: string | null;
  kind: string | null;
  outcome: string;
  /** The number of the step, and how many. */
  counts: [step: number, count: number][];
}

export interface History {
  step_ms: number;
  counted_until: Time;
  /** When step 0 begins. */
  begins: Time | null;
  series: Counted[];
}

export interface ScheduleRecord {
  name: string;
  source: string;
  definition: {
    cron: string;
    zone?: string;
    starts_at?: Time | null;
    ends_at?: Time | null;
    jitter_ms?: number;
    overlap?: 'allow' | 'skip' | 'queue_one';
    missed?: 'none' | 'last' | { all: number };
    kind: string;
    args: Json;
    queue?: string;
    priority?: number;
  } | null;
  paused: boolean;
  next_tick: Time | null;
  due_at: Time | null;
  last_tick: Time | null;
  last_job: string | number | null;
  last_enqueued_at: Time | null;
  /** What became of the last job: the state it is in. */
  last_run: string | null;
  queued_tick: Time | null;
  error: string | null;
  next?: Time[];
}

export type BulkAction = 'cancel' | 'retry' | 'delete' | 'edit';

export interface BulkFilter {
  state?: string;
  queue?: string;
  kind?: string;
  tag?: string;
  error?: string;
  args?: unknown;
}

export interface BulkPreview extends Bulk {
  exact: boolean;
  expires_at: Time;
}

export interface Bulk {
  id: string;
  action: BulkAction;
  filter?: BulkFilter | { ids: number } | null;
  count: number;
  done: number;
  asked: number;
  left: number;
  state: 'counting' | 'previewed' | 'running' | 'done' | 'stopped' | 'failed';
  error?: string | null;
}

export interface Quantiles {
  count: number;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
}

export interface Timings {
  step_ms: number;
  timed: { at: Time; queue: string | null; kind: string | null; wait: Quantiles; run: Quantiles }[];
}

export interface FailureGroup {
  fingerprint: string;
  queue: string | null;
  kind: string | null;
  /** `null` where nobody knows what is hidden in it. */
  sample: string | null;
  last_job: string;
  count: number;
  first_at: Time;
  last_at: Time;
}

export interface Mark {
  at: Time;
  label: string;
}

export interface AuditEntry {
  id: string | number;
  at: Time;
  actor: string;
  role?: string | null;
  /** How they were known: by a token, a session, the command line, … */
  via: string;
  action: string;
  target: string | null;
  filter?: BulkFilter | { ids: number } | string | null;
  reason?: string | null;
  outcome: string;
  count?: number | null;
  request_id?: string | null;
}

export interface Page<T> {
  items: T[];
  next?: string | number | null;
}
