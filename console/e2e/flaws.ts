import AxeBuilder from '@axe-core/playwright'
import type { Page } from '@playwright/test'

/** flaws is what axe finds wrong with a page as it is. */
export async function flaws(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']).analyze()
  return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`)
}
