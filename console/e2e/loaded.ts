import type { Page } from '@playwright/test'

/** loaded is how many bytes of files a page has transferred since it was opened, compressed as they came. */
export const loaded = (page: Page) =>
  page.evaluate(() =>
    [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
      .filter((e): e is PerformanceResourceTiming => e instanceof PerformanceResourceTiming && !/\/(api|lab)\//.test(e.name))
      .reduce((sum, e) => sum + e.encodedBodySize, 0),
  )
