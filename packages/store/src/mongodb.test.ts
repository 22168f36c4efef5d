import { withServers } from '@wellspring/testing/servers/servers';
import { collectionContract } from './contract.ts';
import { commitRunContract } from './contract-runs.ts';
import { openMongoSubject } from './mongodb.fixture.ts';

// The adapter keeps to what every server has that calls itself compatible.
for (const server of ['mongodb', 'mongo-java-server'] as const) {
  await withServers([server], ({ [server]: url }) => {
    const open = () => openMongoSubject(url);
    collectionContract(server, open);
    commitRunContract(server, open);
  });
}
