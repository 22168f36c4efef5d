import { compareDistributed } from './src/distributed.ts';
import { compareRoad } from './src/road.ts';

/** `pnpm bench`: both; `pnpm bench embedded` or `pnpm bench distributed`: one of them. */
const [only] = process.argv.slice(2);
if (only !== 'distributed') await compareRoad();
if (only !== 'embedded') await compareDistributed();
