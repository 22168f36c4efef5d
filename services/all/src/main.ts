import { main } from '@wellspring/runtime/main';
import { factories } from './factories.ts';

await main(factories);
