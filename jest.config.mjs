/** Native ES modules; TypeScript only loses its types (Node's own stripping), nothing else is transformed. */
export default {
  testMatch: ['<rootDir>/{packages,services}/*/src/**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '\\.ts$': '<rootDir>/packages/testing/src/strip-types.mjs' },
  // Takes a machine for itself: see jest.distributed.mjs.
  testPathIgnorePatterns: ['/node_modules/', '/distributed\\.test\\.ts$'],
  testEnvironment: '<rootDir>/packages/testing/src/environment.mjs',
  globalSetup: '<rootDir>/packages/testing/src/servers/global-setup.ts',
  globalTeardown: '<rootDir>/packages/testing/src/servers/global-teardown.ts',
  // More than the two processors of a small machine: tests wait for servers and time limits.
  maxWorkers: 3,
  testTimeout: 30_000,
  modulePathIgnorePatterns: ['<rootDir>/.wellspring'],
  reporters: [['default', { summaryThreshold: 1 }]],
};
