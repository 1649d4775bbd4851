import { expect, test } from '@playwright/test'
import { accessible } from './flaws'
import { call, signIn, training } from './people'
import { plane } from './plane'

type Tenants = { items: { org_id: string }[] }

test('a tenant gets an account and money, and its ledger says so; what was wrong is reversed', async ({ page }) => {
  const { org } = await training()
  await signIn(page, `/billing?tenant=${org}`)
  const main = page.getByRole('main')
  const dialog = page.getByRole('dialog')
  await main.getByRole('button', { name: 'Open an account …' }).click()
  await expect(dialog.getByRole('button', { name: 'Open the account' })).toBeDisabled()
  await dialog.getByLabel('Currency').fill('usd')
  await dialog.getByLabel('Discount in percent').fill('12.5')
  await accessible(page, 'a billing account')
  await dialog.getByRole('button', { name: 'Open the account' }).click()
  await expect(main.getByText('12.5 %')).toBeVisible()
  await expect(main.getByText('0.00 USD').first()).toBeVisible()

  await main.getByRole('button', { name: 'Add money …' }).click()
  await dialog.getByLabel(/^Amount in USD/).fill('1000.005')
  await expect(dialog.getByText('USD has 2 digits')).toBeVisible()
  await dialog.getByLabel(/^Amount in USD/).fill('1000.50')
  await dialog.getByLabel(/^Reference/).fill('invoice 17')
  await dialog.getByLabel(/^Reason/).fill('paid in advance')
  await accessible(page, 'a credit')
  await dialog.getByRole('button', { name: 'Add 1,000.50 USD' }).click()
  await expect(main.getByText('1,000.50 USD').first()).toBeVisible()

  await main.getByRole('button', { name: 'Add money …' }).click()
  await dialog.getByLabel(/^Amount in USD/).fill('1')
  await dialog.getByLabel(/^Reference/).fill('invoice 17')
  await dialog.getByLabel(/^Reason/).fill('once more')
  await dialog.getByRole('button', { name: 'Add 1.00 USD' }).click()
  await expect(dialog.getByRole('alert').first()).toContainText('invoice 17') // a reference is used once
  await page.keyboard.press('Escape')

  await main.getByRole('tab', { name: 'Ledger' }).click()
  const added = main.getByRole('row').filter({ hasText: 'invoice 17' })
  await expect(added).toContainText('Money added')
  await added.getByRole('button').click()
  await dialog.getByLabel('Reason').fill('of another tenant')
  await dialog.getByRole('button', { name: 'Reverse it' }).click()
  await expect(main.getByRole('row').filter({ hasText: 'Correction of another entry' })).toContainText('-1,000.50 USD')
  await expect(added).toContainText('reversed')

  // The pages that are visited next show tenants with an account, whichever comes first.
  for (const t of (await call<Tenants>('GET', '/api/v1/tenants?page_size=200')).items.filter((t) => t.org_id !== org)) {
    await call('PUT', `/api/v1/tenants/${t.org_id}/billing-account`, { currency: 'USD' })
  }
  await page.goto(`${plane.url}/billing`)
  await expect(main.getByRole('heading', { name: 'Capacity, and what it earns' })).toBeVisible()
  await expect(main.getByRole('grid', { name: 'By tenant' }).getByRole('link', { name: 'research' })).toBeVisible()
})
