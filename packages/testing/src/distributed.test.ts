import { describe } from '@jest/globals';
import { chaosSuite } from './chaos.fixture.ts';
import { failoverSuite } from './failover.fixture.ts';
import { moveSuite } from './move.fixture.ts';
import { rollingRestartSuite } from './rolling-restart.fixture.ts';
import { scalingSuite } from './scaling.fixture.ts';
import { withPrograms } from './servers/servers.ts';

/** The distributed mode as a whole. In one file: each of them takes a machine for itself. */
await withPrograms(['rabbitmq', 'redis', 'mongodb'], () => {
  describe('moving', moveSuite);
  describe('scaling', scalingSuite);
  describe('rolling restart', rollingRestartSuite);
  describe('failover', failoverSuite);
  describe('chaos', chaosSuite);
});
