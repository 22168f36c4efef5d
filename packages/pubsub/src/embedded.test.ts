import { silentLog } from '@wellspring/core/log';
import { pubsubConformance } from './conformance.ts';
import { createEmbeddedPubSub } from './embedded.ts';

pubsubConformance('embedded', async () => createEmbeddedPubSub({ log: silentLog }));
