// Builds the dashboard into crates/windlass-server/assets, which is committed: cargo build needs no Node.
//
//   node build.mjs           writes it
//   node build.mjs --check   fails when what is committed is not the build of these sources
//
// The same sources give the same bytes: names carry a hash of the content, nothing carries a time or a path. What is compressed is compared by
// what it holds, and stays as it is committed while that is the same: another Node may compress otherwise.
import { build, transform } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, '../crates/windlass-server/assets');
/** The most bytes that a browser loads, compressed by gzip. */
const BUDGET = { js: 45_000, css: 14_000 };
const TARGET = ['chrome116', 'firefox124', 'safari17.4'];
const TYPES = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
  txt: 'text/plain; charset=utf-8',
};
/** What is in the bundle and belongs to others. */
const LICENSED = ['preact', '@preact/signals', '@preact/signals-core'];

const read = path => readFileSync(join(here, path), 'utf8');

async function script(entry, format) {
  const result = await build({
    entryPoints: [join(here, entry)],
    absWorkingDir: here,
    bundle: true,
    charset: 'utf8',
    format,
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    logLevel: 'error',
    minify: true,
    target: TARGET,
    write: false,
  });
  return result.outputFiles[0].text;
}

async function style() {
  const css = ['tokens', 'base', 'parts', 'pages'].map(name => read(`css/${name}.css`)).join('\n');
  return (await transform(css, { loader: 'css', minify: true, charset: 'utf8', target: TARGET, legalComments: 'none' })).code;
}

function hashed(name, text) {
  const [stem, ending] = name.split('.');
  return `${stem}-${createHash('sha256').update(text).digest('hex').slice(0, 10)}.${ending}`;
}

/** Compressed as browsers take it, without the name of the system that did it. */
function compressed(text) {
  const bytes = gzipSync(text, { level: 9 });
  bytes[9] = 255;
  return bytes;
}

/** The files of the build: path -> content. */
async function files() {
  const named = {
    app: ['app.js', await script('src/app.tsx', 'esm')],
    theme: ['theme.js', await script('src/first.ts', 'iife')],
    style: ['app.css', await style()],
    favicon: ['favicon.svg', read('public/favicon.svg')],
  };
  const all = new Map();
  let page = read('index.html');
  for (const [key, [name, text]] of Object.entries(named)) {
    const path = hashed(name, text);
    all.set(path, text);
    page = page.replaceAll(`%${key}%`, path);
  }
  all.set('index.html', page);
  all.set('licenses.txt', LICENSED.map(name => `${name}\n\n${read(`node_modules/${name}/LICENSE`).trim()}\n`).join('\n'));
  const manifest = [...all.keys()].sort().map(path => ({
    path,
    type: TYPES[path.split('.').pop()],
    immutable: /-[0-9a-f]{10}\./.test(path),
    gzip: /\.(js|css)$/.test(path),
  }));
  for (const { path } of manifest.filter(({ gzip }) => gzip)) all.set(`${path}.gz`, compressed(all.get(path)));
  all.set('manifest.json', `${JSON.stringify(manifest, null, 2)}\n`);
  return all;
}

/** What the pages load, against the budget; a line of text each. */
function weigh(all) {
  return Object.entries(BUDGET).map(([ending, most]) => {
    const paths = [...all.keys()].filter(path => path.endsWith(`.${ending}`));
    const size = paths.reduce((sum, path) => sum + all.get(`${path}.gz`).length, 0);
    return { text: `${ending}: ${size} of ${most} bytes gzipped`, over: size > most };
  });
}

function committed() {
  try {
    return new Map(readdirSync(out).map(path => [path, readFileSync(join(out, path))]));
  } catch (error) {
    if (error.code === 'ENOENT') return new Map();
    throw error;
  }
}

/** Whether a file of the build is there as it is to be. */
function same(path, content, there) {
  if (!there || !content) return false;
  return path.endsWith('.gz') ? gunzipSync(there).equals(gunzipSync(content)) : there.equals(Buffer.from(content));
}

function fail(message) {
  console.error(`build.mjs: ${message}`);
  process.exit(1);
}

const all = await files();
const there = committed();
const weights = weigh(all);
for (const { text } of weights) console.log(text);
if (weights.some(({ over }) => over)) fail('the bundle is over its budget; take something out, or argue for another budget');
if (process.argv.includes('--check')) {
  const wrong = [...new Set([...all.keys(), ...there.keys()])].filter(path => !same(path, all.get(path), there.get(path)));
  if (wrong.length) fail(`crates/windlass-server/assets is not the build of dashboard/ (${wrong.join(', ')}); run make dashboard and commit what it writes`);
} else {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  for (const [path, content] of all) writeFileSync(join(out, path), same(path, content, there.get(path)) ? there.get(path) : content);
}
