import config from './jest.config.mjs';

/** The distributed mode as a whole, every service as processes of their own: `pnpm test:distributed`. */
export default {
  ...config,
  testMatch: ['<rootDir>/packages/testing/src/distributed.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
};
