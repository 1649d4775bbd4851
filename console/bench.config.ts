import base from './playwright.config'

// Measures the console in Chromium against a fleet of 10,000 nodes; tools/bench-console.sh.
export default { ...base, testDir: 'bench', testMatch: '*.bench.ts', globalSetup: './bench/seeded.ts', timeout: 120_000 }
