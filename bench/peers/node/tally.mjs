// Which jobs were handled how often, and how many in each second.

export class Tally {
  handled = 0;
  perSecond = [];
  #counts = new Uint8Array(1 << 16);
  #start = 0;

  /** Begins the series of seconds, at a time of Date.now(). */
  start(epoch) {
    this.#start = epoch;
  }

  /** Records that the job with these args was handled. */
  mark(args) {
    const id = args?.id;
    if (!Number.isSafeInteger(id) || id < 0) throw new Error(`job args ${JSON.stringify(args)}: want {"id": n}`);
    if (id >= this.#counts.length) this.#grow(id);
    if (this.#counts[id] < 255) this.#counts[id]++;
    const second = Math.floor((Date.now() - this.#start) / 1000);
    while (this.perSecond.length <= second) this.perSecond.push(0);
    this.perSecond[second]++;
    this.handled++;
  }

  #grow(id) {
    const larger = new Uint8Array(Math.max(id + 1, this.#counts.length * 2));
    larger.set(this.#counts);
    this.#counts = larger;
  }

  /** What is sent to another process. */
  snapshot() {
    return { handled: this.handled, perSecond: this.perSecond, counts: this.#counts };
  }
}

/** Sums the series of several tallies. */
export function addSeries(snapshots) {
  const sum = [];
  for (const { perSecond } of snapshots) perSecond.forEach((n, second) => (sum[second] = (sum[second] ?? 0) + n));
  return Array.from(sum, n => n ?? 0);
}

/** Fails unless each of the ids 0 .. jobs - 1, and no other, was handled exactly once. */
export function verifyExactlyOnce(snapshots, jobs) {
  let missing = 0, repeated = 0, unknown = 0;
  const length = Math.max(jobs, ...snapshots.map(s => s.counts.length));
  for (let id = 0; id < length; id++) {
    let times = 0;
    for (const { counts } of snapshots) times += counts[id] ?? 0;
    if (id >= jobs) unknown += times;
    else if (times === 0) missing++;
    else if (times > 1) repeated++;
  }
  if (missing || repeated || unknown) {
    throw new Error(`of ${jobs} jobs ${missing} were not handled, ${repeated} more than once, ${unknown} were never enqueued`);
  }
}
