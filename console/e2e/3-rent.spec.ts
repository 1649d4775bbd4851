import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, type Locator, type Page } from '@playwright/test'
import { accessible } from './flaws'
import { call, comeAs } from './people'
import { plane, tenant } from './plane'

type Made = { user_id: string; org_id: string; project_id: string }

/** aProject makes a tenant with a project. */
async function aProject(slug: string, name: string): Promise<string> {
  const { org_id } = await call<Made>('POST', '/api/v1/admin/tenants', { slug, name })
  return (await call<Made>('POST', `/api/v1/tenants/${org_id}/projects`, { slug: 'training', name: 'Training' })).project_id
}

/** aMember makes somebody a member of a new project, with no other right. */
async function aMember() {
  const { user_id } = await call<Made>('POST', '/api/v1/admin/users', { email: tenant.email, name: tenant.name, platform_role: 'none' })
  await call('PUT', `/api/v1/projects/${await aProject('research', 'Research')}/members/${user_id}`, { role: 'project_member' })
}

type Rented = { allocation_id: string; node_id: string; status: string }

/** aNodeThatSomebodyLeft is one whose last tenant gave it back: only such a node comes with a receipt. */
async function aNodeThatSomebodyLeft(): Promise<string> {
  const { allocation_id, node_id } = (await call<{ allocations: [Rented] }>('POST', `/api/v1/projects/${await aProject('before', 'Before')}/allocations`, { sku: 'h200-sxm-baremetal-8g' })).allocations[0]
  const becomes = (status: string) => expect.poll(async () => (await call<Rented>('GET', `/api/v1/allocations/${allocation_id}`)).status, { timeout: 120_000 }).toBe(status)
  await becomes('active')
  await call('POST', `/api/v1/allocations/${allocation_id}/release`, {})
  await becomes('released')
  return node_id
}

type Nodes = { items: { node_id: string; status: string; version: number }[] }

/** setAside puts all nodes but one into another pool, from which tenants get none; an empty one takes them back. */
async function setAside(pool: string, but: string) {
  const { items } = await call<Nodes>('GET', '/api/v1/admin/nodes?page_size=100')
  for (const n of items.filter((n) => n.status === 'active' && n.node_id !== but)) await call('PATCH', `/api/v1/admin/nodes/${n.node_id}`, { pool }, { 'If-Match': `"${n.version}"` })
}

/** keep downloads what a button gives, and says where it is. */
async function keep(page: Page, button: Locator, folder: string): Promise<string> {
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()])
  const path = join(folder, file.suggestedFilename())
  await file.saveAs(path)
  return path
}

test('a member of a project rents a node, works on it, gives it back, and holds both receipts', async ({ browser }) => {
  await aMember()
  const node = await aNodeThatSomebodyLeft()
  await setAside('set-aside', node)
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
  await setAside('', node)
  await page.context().close()
})
