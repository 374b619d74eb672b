import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: `${import.meta.dirname}/..`,
    include: ['e2e/*.e2e.ts'],
    // One cluster, one browser, one thing after the other.
    fileParallelism: false,
    bail: 1,
    testTimeout: 400_000,
    hookTimeout: 120_000,
  },
});
