import { withServers } from '@wellspring/testing/servers/servers';
import { collectionConformance } from '../conformance.ts';
import { queryConformance } from '../conformance-queries.ts';
import { commitRunConformance } from '../conformance-runs.ts';
import { openMongoSubject } from './store.fixture.ts';

await withServers(['mongodb'], ({ mongodb }) => {
  const open = () => openMongoSubject(mongodb);
  collectionConformance('mongodb', open);
  queryConformance('mongodb', open);
  commitRunConformance('mongodb', open);
});
