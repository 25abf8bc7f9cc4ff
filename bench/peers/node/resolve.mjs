// Packages are installed outside of the checkout: a bare import in our files is looked up from there.
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

const ours = new URL('..', import.meta.url).href;
const installed = pathToFileURL(`${process.env.PEERS_HOME}/node/package.json`).href;

registerHooks({
  resolve(specifier, context, next) {
    const bare = !/^(\.|\/|node:|file:)/.test(specifier);
    return next(specifier, bare && context.parentURL?.startsWith(ours) ? { ...context, parentURL: installed } : context);
  },
});
