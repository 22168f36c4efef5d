import { silentLog } from '@wellspring/core/log';
import { pubsubConformance } from '../conformance.ts';
import { createEmbeddedPubSub } from './pubsub.ts';

pubsubConformance('embedded', async () => createEmbeddedPubSub({ log: silentLog }));
