import { expect, test, type Page } from '@playwright/test'
import { accessible } from './flaws'
import { loaded } from './loaded'
import { signIn } from './people'
import { plane } from './plane'
import { addresses, visit } from './visit'

const desk = { width: 1440, height: 900 }
const telephone = { width: 400, height: 800 }

/** overhang is by how many pixels a page, or what is in it, is too wide. */
const overhang = (page: Page) =>
  page.evaluate(() => Object.fromEntries(['html', 'main'].map((part) => [part, [...document.querySelectorAll(part)].reduce((most, e) => Math.max(most, e.scrollWidth - e.clientWidth), 0)])))

// A page is loaded once, and looked at in both themes and both widths.
test('every page is whole, accessible in both themes, and not wider than a telephone', async ({ browser }) => {
  test.setTimeout(2_700_000) // more than sixty pages, four times each, beside the rest of the suite
  const page = await browser.newPage({ colorScheme: 'light', viewport: desk })
  const broken: string[] = []
  page.on('pageerror', (e) => broken.push(`${page.url()}: ${e.message}`))
  page.on('console', (m) => m.type() === 'error' && !m.text().includes('401') && broken.push(`${page.url()}: ${m.text()}`))
  await page.goto(plane.url)
  await page.getByLabel('API token').waitFor()
  await accessible(page, 'sign-in')
  await signIn(page)
  for (const { name, path } of await addresses()) {
    await visit(page, path)
    if (name !== 'decommission-plan') expect.soft(await page.getByRole('main').getByRole('alert').allInnerTexts(), name).toEqual([])
    await accessible(page, name)
    await page.setViewportSize(telephone)
    // What is drawn to fit its place, like the map of the fleet, is drawn again a moment later.
    await expect.configure({ soft: true }).poll(() => overhang(page), { message: name, timeout: 5_000 }).toEqual({ html: 0, main: 0 })
    await page.setViewportSize(desk)
  }
  expect(broken).toEqual([])
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
