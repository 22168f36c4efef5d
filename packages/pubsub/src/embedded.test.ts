import { silentLog } from '@wellspring/core/log';
import { pubsubContract } from './contract.ts';
import { createEmbeddedPubSub } from './embedded.ts';

pubsubContract('embedded', async () => createEmbeddedPubSub({ log: silentLog }));
