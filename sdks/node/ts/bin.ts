#!/usr/bin/env node
// The command `windlass`: `npx windlass migrate`.
import { addon } from './native.js'

process.exit(addon().cli(['windlass', ...process.argv.slice(2)]))
