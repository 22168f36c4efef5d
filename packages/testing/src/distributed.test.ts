import { describe } from '@jest/globals';
import { chaosSuite } from './chaos.fixture.ts';
import { failoverSuite } from './failover.fixture.ts';
import { moveSuite } from './move.fixture.ts';
import { rollingRestartSuite } from './rolling-restart.fixture.ts';
import { scalingSuite } from './scaling.fixture.ts';
import { withPrograms } from './servers/servers.ts';

/** Suites of the distributed mode, in one file because each one needs the whole machine. */
await withPrograms(['rabbitmq', 'redis', 'mongodb'], () => {
  describe('moving', moveSuite);
  describe('scaling', scalingSuite);
  describe('rolling restart', rollingRestartSuite);
  describe('failover', failoverSuite);
  describe('chaos', chaosSuite);
});
