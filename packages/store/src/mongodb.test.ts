import { withServers } from '@wellspring/testing/servers/servers';
import { collectionContract } from './contract.ts';
import { commitRunContract } from './contract-runs.ts';
import { openMongoSubject } from './mongodb.kit.ts';

await withServers(['mongodb'], ({ mongodb }) => {
  const open = () => openMongoSubject(mongodb);
  collectionContract('mongodb', open);
  commitRunContract('mongodb', open);
});
