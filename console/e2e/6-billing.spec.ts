import { expect, test } from '@playwright/test'
import { accessible } from './flaws'
import { call, signIn, training } from './people'
import { plane } from './plane'

type Tenants = { items: { org_id: string }[] }
type Projects = { items: { project_id: string }[] }

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
  await expect(dialog.getByText('Amounts in USD have at most 2 decimal places')).toBeVisible()
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

  await main.getByRole('button', { name: 'Limits …' }).click()
  await dialog.getByLabel('It pays').selectOption('prepaid')
  await dialog.getByLabel(/^Announce releases/).fill('9d')
  await expect(dialog.getByText('Not before the first warning.')).toBeVisible()
  await dialog.getByLabel(/^Announce releases/).fill('1d')
  await accessible(page, 'limits of a balance')
  await dialog.getByRole('button', { name: 'Set' }).click()
  await expect(main.getByText('prepaid, never below zero')).toBeVisible()
  await expect(main.getByText('healthy', { exact: true })).toBeVisible()

  await main.getByRole('tab', { name: 'Ledger' }).click()
  const added = main.getByRole('row').filter({ hasText: 'invoice 17' })
  await expect(added).toContainText('Money added')
  await added.getByRole('button').click()
  await dialog.getByLabel('Reason').fill('of another tenant')
  await dialog.getByRole('button', { name: 'Reverse it' }).click()
  await expect(main.getByRole('row').filter({ hasText: 'Correction of another entry' })).toContainText('-1,000.50 USD')
  await expect(added).toContainText('reversed')

  // It has nothing left, and is let go on for the stories that follow.
  await expect(main.getByText('The balance is used up: you cannot rent anything new')).toBeVisible()
  await call('PUT', `/api/v1/tenants/${org}/balance/limits`, { payment: 'postpaid' })

  // The pages that are visited next show tenants with an account and projects with a budget, whichever come first.
  for (const t of (await call<Tenants>('GET', '/api/v1/tenants?page_size=200')).items) {
    if (t.org_id !== org) await call('PUT', `/api/v1/tenants/${t.org_id}/billing-account`, { currency: 'USD' })
    for (const p of (await call<Projects>('GET', `/api/v1/tenants/${t.org_id}/projects?page_size=200`)).items) {
      await call('PUT', `/api/v1/projects/${p.project_id}/budget`, { amount_minor: 500_000, currency: 'USD' })
    }
  }
  await page.goto(`${plane.url}/billing?tenant=${org}&tab=budgets`)
  await expect(main.getByRole('meter', { name: 'Spent of the budget' }).first()).toBeVisible()
  await page.goto(`${plane.url}/billing`)
  await expect(main.getByRole('heading', { name: 'Capacity, and what it earns' })).toBeVisible()
  await expect(main.getByRole('grid', { name: 'By tenant' }).getByRole('link', { name: 'research' })).toBeVisible()
})

test('a price is set for a time to come, and withdrawn before it begins', async ({ page }) => {
  await signIn(page, '/prices')
  const main = page.getByRole('main')
  const dialog = page.getByRole('dialog')
  await main.getByRole('button', { name: 'Set a price …' }).first().click()
  await dialog.getByLabel('SKU').selectOption('h200-sxm-baremetal-8g')
  await dialog.getByLabel(/^Price of one GPU/).fill('9.99')
  await dialog.getByLabel(/^Begins/).fill('2099-01-01T00:00')
  await accessible(page, 'a price')
  await dialog.getByRole('button', { name: 'Set' }).click()
  const planned = main.getByRole('row').filter({ hasText: '9.99' })
  await expect(planned).toContainText('upcoming')
  await planned.getByRole('button').click()
  await dialog.getByRole('button', { name: 'Withdraw it' }).click()
  await expect(planned).toHaveCount(0)
})
