import { expect, test, type Page } from '@playwright/test'
import { flaws } from './flaws'
import { loaded } from './loaded'
import { pages } from './pages'
import { signIn } from './people'
import { plane } from './plane'

async function settled(page: Page, path: string) {
  await page.goto(plane.url + path)
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
  await expect(page.getByText(/^Loading /)).toHaveCount(0)
}

for (const scheme of ['light', 'dark'] as const) {
  test(`every page is accessible and whole, ${scheme}`, async ({ browser }) => {
    const context = await browser.newContext({ colorScheme: scheme, viewport: { width: 1440, height: 900 } })
    const page = await context.newPage()
    const broken: string[] = []
    page.on('pageerror', (e) => broken.push(`${page.url()}: ${e.message}`))
    page.on('console', (m) => m.type() === 'error' && !m.text().includes('401') && broken.push(`${page.url()}: ${m.text()}`))
    await page.goto(plane.url)
    await page.getByLabel('API token').waitFor()
    expect(await flaws(page), 'sign-in').toEqual([])
    await signIn(page)
    for (const { name, path } of await pages()) {
      await settled(page, path)
      if (name !== 'decommission-plan') expect.soft(await page.getByRole('main').getByRole('alert').allInnerTexts(), name).toEqual([])
      expect.soft(await flaws(page), name).toEqual([])
    }
    expect(broken).toEqual([])
    await context.close()
  })
}

test('no page is wider than a telephone', async ({ browser }) => {
  const page = await browser.newPage({ viewport: { width: 400, height: 800 } })
  await signIn(page)
  for (const { name, path } of await pages()) {
    await settled(page, path)
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    expect.soft(wide, name).toBeLessThanOrEqual(0)
    const main = await page.evaluate(() => {
      const m = document.querySelector('main')
      return m ? m.scrollWidth - m.clientWidth : 0
    })
    expect.soft(main, `${name}, within main`).toBeLessThanOrEqual(0)
  }
  await page.close()
})

test('the first load stays below 300 kB', async ({ page }) => {
  await signIn(page)
  await page.reload()
  await page.getByRole('heading', { level: 1 }).waitFor()
  const bytes = await loaded(page)
  expect(bytes).toBeGreaterThan(50_000)
  expect(bytes).toBeLessThan(300_000)
})
