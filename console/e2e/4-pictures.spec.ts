import { expect, test } from '@playwright/test'
import { pages } from './pages'
import { signIn } from './people'
import { plane } from './plane'

const looks = [
  { folder: 'light', colorScheme: 'light', viewport: { width: 1440, height: 900 } },
  { folder: 'dark', colorScheme: 'dark', viewport: { width: 1440, height: 900 } },
  { folder: 'narrow', colorScheme: 'light', viewport: { width: 400, height: 800 } },
] as const

for (const { folder, ...look } of looks) {
  test(`pictures, ${folder}`, async ({ browser }) => {
    const page = await browser.newPage(look)
    await signIn(page)
    for (const { name, path } of await pages()) {
      await page.goto(plane.url + path)
      await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
      await expect(page.getByText(/^Loading /)).toHaveCount(0)
      await page.screenshot({ path: `screenshots/${folder}/${name}.png` })
    }
    await page.close()
  })
}
