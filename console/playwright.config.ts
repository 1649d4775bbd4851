import { defineConfig } from '@playwright/test'

// The tests drive the console as people do: in the system's own Chromium, against
// a control plane with real engines and a virtual data centre, which e2e/plane.ts
// brings up and takes down.
export default defineConfig({
  testDir: 'e2e',
  testIgnore: '4-pictures.spec.ts', // make screenshots
  globalSetup: './e2e/plane.ts',
  // They share one fleet, and tell one story after the other.
  workers: 1,
  fullyParallel: false,
  timeout: 900_000, // the rest of the suite runs beside it
  expect: { timeout: 60_000 },
  reporter: [['list']],
  use: {
    browserName: 'chromium',
    launchOptions: { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] },
    viewport: { width: 1440, height: 900 },
    actionTimeout: 60_000,
    trace: 'off', // recording one costs almost as much as the tests; npx playwright test --trace retain-on-failure
    screenshot: 'only-on-failure',
  },
})
