// What browsers ask for, asked again without one.

/** Asks for all of these at once; milliseconds until the last one was answered whole. */
export async function replay(url, requests) {
  const begun = performance.now();
  await Promise.all(requests.map(ask));
  return performance.now() - begun;
}

async function ask(url) {
  const answer = await fetch(url);
  const said = await answer.text();
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${said}`);
}

/** So many who have a page open: each has its event stream, and repeats its requests as the page did. */
export class Viewers {
  constructor(url, watched, many) {
    this.closing = new AbortController();
    const last = Math.max(...watched.map(each => each.after));
    const streams = watched.filter(each => each.url.includes('/live?')).map(each => each.url);
    // Those of its first second are its load; what came later comes again after as long.
    const repeated = watched.filter(each => each.after > 1_500 && !each.url.includes('/live?'));
    this.told = 0;
    this.open = Array.from({ length: many }, () => streams.slice(0, 1).map(stream => this.follow(stream)));
    this.timers = Array.from({ length: many }, () => repeated.map(each => setInterval(() => void ask(each.url).catch(() => {}), last * (0.9 + 0.2 * Math.random()))));
  }

  async follow(stream) {
    const answer = await fetch(stream, { headers: { accept: 'text/event-stream' }, signal: this.closing.signal });
    const read = (async () => {
      for await (const part of answer.body) this.told += part.length;
    })();
    read.catch(() => {});
  }

  async ready() {
    await Promise.all(this.open.flat());
  }

  async end() {
    this.timers.flat().forEach(clearInterval);
    this.closing.abort();
    if (!this.told) throw new Error('no viewer was told anything');
  }
}
