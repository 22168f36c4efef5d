import { describe } from '@jest/globals';
import { chaosSuite } from './chaos.kit.ts';
import { failoverSuite } from './failover.kit.ts';
import { moveSuite } from './move.kit.ts';
import { rollingRestartSuite } from './rolling-restart.kit.ts';
import { scalingSuite } from './scaling.kit.ts';
import { withPrograms } from './servers/servers.ts';

/** The distributed mode as a whole. In one file: each of them takes a machine for itself. */
await withPrograms(['rabbitmq', 'redis', 'mongodb'], () => {
  describe('moving', moveSuite);
  describe('scaling', scalingSuite);
  describe('rolling restart', rollingRestartSuite);
  describe('failover', failoverSuite);
  describe('chaos', chaosSuite);
});
