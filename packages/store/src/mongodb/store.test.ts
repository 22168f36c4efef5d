import { withServers } from '@wellspring/testing/servers/servers';
import { collectionConformance } from '../conformance.ts';
import { commitRunConformance } from '../conformance-runs.ts';
import { openMongoSubject } from './store.fixture.ts';

// The adapter uses only features of every compatible server.
for (const server of ['mongodb', 'mongo-java-server'] as const) {
  await withServers([server], ({ [server]: url }) => {
    const open = () => openMongoSubject(url);
    collectionConformance(server, open);
    commitRunConformance(server, open);
  });
}
