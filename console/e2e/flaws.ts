import AxeBuilder from '@axe-core/playwright'
import { expect, type Page } from '@playwright/test'

async function found(by: AxeBuilder): Promise<string[]> {
  // Pages have no frames of their own. Without this axe opens another page each time to put together what it found in them.
  const { violations } = await by.setLegacyMode().analyze()
  return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`)
}

/** flaws is what axe finds wrong with a page as it is. */
export const flaws = (page: Page) => found(new AxeBuilder({ page }).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']))

/** Of the rules for WCAG, those that look at colours: axe calls them cat.color. */
const colours = ['color-contrast', 'link-in-text-block']

/** accessible looks at the page as it is in both themes: at everything once, and at the colours of the other theme. */
export async function accessible(page: Page, what: string) {
  expect.soft(await flaws(page), `${what}, light`).toEqual([])
  await page.emulateMedia({ colorScheme: 'dark' })
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark')
  expect.soft(await found(new AxeBuilder({ page }).withRules(colours)), `${what}, dark`).toEqual([])
  await page.emulateMedia({ colorScheme: 'light' })
}
