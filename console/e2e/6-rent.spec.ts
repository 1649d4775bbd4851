import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, type Locator, type Page } from '@playwright/test'
import { flaws } from './flaws'
import { call, comeAs } from './people'
import { plane, tenant } from './plane'

type Made = { user_id: string; org_id: string; project_id: string }

/** aMember makes somebody a member of a new project, with no other right. */
async function aMember() {
  const { user_id } = await call<Made>('POST', '/api/v1/admin/users', { email: tenant.email, name: tenant.name, platform_role: 'none' })
  const { org_id } = await call<Made>('POST', '/api/v1/admin/tenants', { slug: 'research', name: 'Research' })
  const { project_id } = await call<Made>('POST', `/api/v1/tenants/${org_id}/projects`, { slug: 'training', name: 'Training' })
  await call('PUT', `/api/v1/projects/${project_id}/members/${user_id}`, { role: 'project_member' })
}

type Nodes = { items: { node_id: string; status: string; clean_at?: string; version: number }[] }

/** ofPool puts the nodes that nobody was ever on into a pool: without them, tenants get one that was cleaned before. */
async function ofPool(pool: string) {
  const { items } = await call<Nodes>('GET', '/api/v1/admin/nodes?page_size=100')
  for (const n of items.filter((n) => n.status === 'active' && !n.clean_at)) await call('PATCH', `/api/v1/admin/nodes/${n.node_id}`, { pool }, { 'If-Match': `"${n.version}"` })
}

/** keep downloads what a button gives, and says where it is. */
async function keep(page: Page, button: Locator, folder: string): Promise<string> {
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()])
  const path = join(folder, file.suggestedFilename())
  await file.saveAs(path)
  return path
}

/** accessible looks at the page as it is, in both themes. */
async function accessible(page: Page, what: string) {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    expect.soft(await flaws(page), `${what}, ${colorScheme}`).toEqual([])
  }
}

test('a member of a project rents a node, works on it, gives it back, and holds both receipts', async ({ browser }) => {
  await aMember()
  await ofPool('set-aside')
  const page = await comeAs(browser, tenant)
  const main = page.getByRole('main')
  await expect(page).toHaveURL(/\/allocations$/) // there is no fleet to see for them
  await expect(main.getByRole('heading', { name: 'Training rents nothing now' })).toBeVisible()
  await accessible(page, 'nothing rented')

  await main.getByRole('button', { name: 'Rent …' }).first().click()
  const dialog = page.getByRole('dialog')
  await expect(dialog.getByText(/such nodes can be had now/)).toBeVisible()
  await expect(dialog.getByText('an hour, from the moment')).toBeVisible()
  await dialog.getByLabel('Name').fill('train')
  await accessible(page, 'the request')
  await dialog.getByRole('button', { name: 'Rent', exact: true }).click()
  await expect(page).toHaveURL(/\/allocations\/[0-9a-f-]+$/)
  const title = page.getByRole('heading', { level: 1 })
  await expect(title.getByText('active', { exact: true })).toBeVisible({ timeout: 120_000 })
  await accessible(page, 'the allocation')

  await main.getByRole('link', { name: 'Allocations' }).click()
  await expect(page.getByRole('row').filter({ hasText: 'train' }).getByText('active', { exact: true })).toBeVisible()
  await main.getByRole('link', { name: 'train' }).click()

  await page.getByRole('button', { name: 'Terminal' }).click()
  const rows = page.locator('.xterm-rows')
  await expect(rows).toContainText('$ ')
  await page.keyboard.type('echo "$USER has $((6 * 7))"\n')
  await expect(rows).toContainText(/u\S* has 42/) // a shell that thinks, as the account of the allocation
  await page.keyboard.type('exit\n')
  await expect(page.getByText('The shell has ended.')).toBeVisible()
  await page.getByRole('button', { name: 'Leave' }).click()

  await page.getByRole('button', { name: 'Change …' }).click()
  await dialog.getByLabel('Protected').check()
  await dialog.getByRole('button', { name: 'Change' }).click()
  await expect(title.getByText('protected')).toBeVisible()
  await page.getByRole('button', { name: 'Release …' }).click()
  await expect(dialog.getByRole('button', { name: 'Release' })).toBeDisabled()
  await dialog.getByLabel(/^Type /).fill('train')
  await dialog.getByRole('button', { name: 'Release' }).click()
  await expect(dialog.getByRole('alert')).toContainText('protected')
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Change …' }).click()
  await dialog.getByLabel('Protected').uncheck()
  await dialog.getByRole('button', { name: 'Change' }).click()
  await page.getByRole('button', { name: 'Release …' }).click()
  await dialog.getByLabel(/^Type /).fill('train')
  await dialog.getByRole('button', { name: 'Release' }).click()
  await expect(dialog).toHaveCount(0)
  await expect(title.getByText('released', { exact: true })).toBeVisible({ timeout: 120_000 })

  const folder = mkdtempSync(join(tmpdir(), 'gpuaas-receipts-'))
  const keys = await keep(page, page.getByRole('button', { name: 'Download the public keys' }), folder)
  for (const about of ['The node was clean before you got it', 'Your data was removed after you gave it back']) {
    const file = await keep(page, page.getByRole('button', { name: `Download the receipt: ${about}` }), folder)
    const said = execFileSync('../bin/gpuaas', ['certificate', 'verify', file, '--keys', keys], { env: { PATH: process.env.PATH, HOME: folder }, encoding: 'utf8' })
    expect(said).toContain('valid')
  }
  rmSync(folder, { recursive: true })
  await page.getByRole('link', { name: 'Your data was removed after you gave it back' }).click()
  await expect(page.getByRole('heading', { name: 'Signature' })).toBeVisible()
  await accessible(page, 'a receipt')
  for (const forbidden of ['/api/v1/admin/nodes', '/api/v1/admin/allocations']) {
    expect((await page.request.get(plane.url + forbidden)).status()).toBe(403)
  }
  await ofPool('')
  await page.context().close()
})
