import { execFileSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, type Locator, type Page } from '@playwright/test'
import { accessible } from './flaws'
import { call, comeAs, signIn, training } from './people'
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
  await expect(dialog.getByText(/such nodes are free now/)).toBeVisible()
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

/** local is a time as a field for date and time has it. */
const local = (at: Date) => new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)

test('what a project may hold is limited, how it rents is settled, and nodes are kept for it', async ({ page }) => {
  const { org, project } = await training()
  await signIn(page, `/access/tenants/${org}?tab=renting`)
  const main = page.getByRole('main')
  const dialog = page.getByRole('dialog')
  await expect(main.getByText('Nothing is limited.')).toBeVisible()
  await main.getByRole('button', { name: 'Set a quota …' }).click()
  await expect(dialog.getByRole('button', { name: 'Set' })).toBeDisabled()
  await dialog.getByLabel('GPUs at most').fill('32')
  await accessible(page, 'a quota')
  await dialog.getByRole('button', { name: 'Set' }).click()
  await expect(main.getByText('0 of 32 GPUs used')).toBeVisible()

  await page.goto(`${plane.url}/access/projects/${project}?tab=renting`)
  await expect(main.getByText('of the whole tenant')).toBeVisible()
  await main.getByRole('button', { name: 'Set a quota …' }).click()
  await dialog.getByLabel('GPUs at most').fill('64')
  await dialog.getByRole('button', { name: 'Set' }).click()
  await expect(dialog.getByRole('alert').first()).toContainText('32') // not more than its tenant
  await dialog.getByLabel('GPUs at most').fill('16')
  await dialog.getByLabel('Nodes at most').fill('2')
  await dialog.getByRole('button', { name: 'Set' }).click()
  await expect(main.getByText('0 of 2 nodes used')).toBeVisible()
  await main.getByRole('button', { name: 'Set a quota …' }).click()
  await dialog.getByLabel('SKU').selectOption('h200-sxm-baremetal-8g')
  await dialog.getByLabel('Nodes at most').fill('1')
  await dialog.getByRole('button', { name: 'Set' }).click()
  await main.getByRole('button', { name: 'Remove the quota: h200-sxm-baremetal-8g' }).click()
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await expect(main.getByText('0 of 1 nodes used')).toHaveCount(0)

  await main.getByRole('button', { name: 'Change the settings …' }).click()
  await dialog.getByLabel('An allocation lasts at most').selectOption('set')
  await dialog.getByLabel(/^At most/).fill('30d')
  await dialog.getByLabel('Root access').selectOption('no')
  await accessible(page, 'rental settings')
  await dialog.getByRole('button', { name: 'Change' }).click()
  await expect(main.getByText('30 d · set by the project').first()).toBeVisible()
  await expect(main.getByText('not allowed · set by the project')).toBeVisible()

  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Reservations' }).click()
  await main.getByRole('button', { name: 'Reserve nodes …' }).first().click()
  await dialog.getByLabel('Tenant').selectOption({ label: 'Research' })
  await dialog.getByLabel('Project').selectOption({ label: 'Training' })
  await dialog.getByLabel('SKU').selectOption('h200-sxm-baremetal-8g')
  await dialog.getByLabel(/^Nodes/).fill('1000')
  await dialog.getByLabel('Ends').fill(local(new Date(Date.now() + 86_400_000)))
  await dialog.getByLabel('Reason').fill('contract 17')
  await expect(dialog.getByLabel('Reserve even if nodes are missing')).toHaveCount(0)
  await dialog.getByRole('button', { name: 'Reserve' }).click()
  await dialog.getByLabel('Reserve even if nodes are missing').check() // more than there is
  await accessible(page, 'a reservation')
  await dialog.getByRole('button', { name: 'Reserve' }).click()
  await expect(page.getByText(/^\d+ nodes are missing$/)).toBeVisible()
  await main.getByRole('button', { name: 'Cancel the reservation …' }).click()
  await dialog.getByLabel('Reason').fill('a digit too many')
  await dialog.getByRole('button', { name: 'Cancel it' }).click()
  await expect(page.getByRole('heading', { level: 1 }).getByText('cancelled')).toBeVisible()
  await call('POST', '/api/v1/reservations', { org_id: org, sku: 'h200-sxm-baremetal-8g', nodes: 2, ends_at: new Date(Date.now() + 86_400_000).toISOString(), reason: 'contract 17' })
})

/** aReceiver is a program that is told events: what it was told, and what it answers. */
async function aReceiver() {
  const told: { headers: IncomingHttpHeaders; body: string }[] = []
  const says = { status: 204 }
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (piece: Buffer) => (body += piece.toString()))
    request.on('end', () => {
      told.push({ headers: request.headers, body })
      response.writeHead(says.status).end(says.status === 204 ? undefined : 'out of paper')
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const stop = () => {
    server.close()
    server.closeAllConnections()
  }
  return { told, says, stop, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` }
}

test('a webhook is added, tried and mended, and what it is told is signed', async ({ page }) => {
  const { project } = await training()
  const receiver = await aReceiver()
  await signIn(page, `/access/projects/${project}?tab=webhooks`)
  const main = page.getByRole('main')
  const dialog = page.getByRole('dialog')
  await main.getByRole('button', { name: 'Add a webhook …' }).click()
  await dialog.getByLabel('Name').fill('pager')
  await dialog.getByLabel('Address').fill('hooks')
  await expect(dialog.getByText('A whole address')).toBeVisible()
  await dialog.getByLabel('Address').fill(receiver.url)
  await dialog.getByLabel('Events').fill('provisioning.*')
  await accessible(page, 'a new webhook')
  await dialog.getByRole('button', { name: 'Add' }).click()
  const secret = await dialog.getByTestId('secret').innerText()
  await page.keyboard.press('Escape') // does not lose it
  await dialog.getByRole('button', { name: 'I have saved it' }).click()

  await main.getByRole('link', { name: 'pager' }).click()
  await page.getByRole('button', { name: 'Send a test' }).click()
  const row = (status: string) => page.getByRole('row').filter({ hasText: 'webhook.test' }).filter({ hasText: status })
  await expect(row('delivered')).toHaveCount(1)
  const [first] = receiver.told
  const signed = createHmac('sha256', Buffer.from(secret.replace('whsec_', ''), 'base64'))
    .update(`${String(first?.headers['webhook-id'])}.${String(first?.headers['webhook-timestamp'])}.${first?.body ?? ''}`)
    .digest('base64')
  expect(first?.headers['webhook-signature']).toContain(`v1,${signed}`)

  receiver.says.status = 500
  await page.getByRole('button', { name: 'Send a test' }).click()
  await expect(row('500')).toHaveCount(1)
  await row('500').getByRole('button').click()
  await expect(dialog.getByText('out of paper')).toBeVisible()
  await accessible(page, 'a delivery')
  receiver.says.status = 204
  await dialog.getByRole('button', { name: 'Deliver it again' }).click()
  await expect(row('delivered').nth(1)).toBeVisible()

  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('menuitem', { name: 'Another secret' }).click()
  await dialog.getByRole('button', { name: 'Make another secret' }).click()
  expect(await dialog.getByTestId('secret').innerText()).not.toBe(secret)
  await dialog.getByRole('button', { name: 'I have saved it' }).click()
  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('menuitem', { name: 'Disable' }).click()
  await dialog.getByRole('button', { name: 'Disable' }).click()
  await expect(main.getByText('It receives nothing')).toBeVisible()
  await page.getByRole('button', { name: 'Enable' }).click()
  await expect(main.getByText('It receives nothing')).toHaveCount(0)

  await call('POST', `/api/v1/projects/${project}/webhooks`, { name: 'mistake', url: receiver.url })
  await page.goto(`${plane.url}/access/projects/${project}?tab=webhooks`)
  await main.getByRole('link', { name: 'mistake' }).click()
  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await expect(main.getByRole('link', { name: 'pager' })).toBeVisible()
  await expect(main.getByRole('link', { name: 'mistake' })).toHaveCount(0)
  receiver.stop()
})

test('maintenance is announced, its tenant agrees, and it is begun and finished', async ({ page, browser }) => {
  const theirs = await comeAs(browser, tenant)
  const asked = theirs.getByRole('dialog')
  await theirs.getByRole('button', { name: 'Rent …' }).first().click()
  await asked.getByLabel('Name').fill('long run')
  await asked.getByLabel('It ends').selectOption('set')
  await asked.getByLabel('After').fill('12h')
  await expect(asked.getByText('The project may hold 2 nodes: 0 used, 1 requested.')).toBeVisible()
  await expect(asked.getByLabel('With sudo')).toBeDisabled() // the project has settled that
  await asked.getByText('More choices').click()
  await asked.getByLabel('Region').fill('nowhere')
  await expect(asked.getByText(/^0 of \d+ such nodes are free now/)).toBeVisible()
  await asked.getByLabel('Wait for nodes up to').fill('1h')
  await asked.getByLabel('Region').fill('')
  await expect(asked.getByLabel('Wait for nodes up to')).toHaveCount(0)
  await asked.getByLabel('Placement').selectOption('same_rack')
  await asked.getByLabel('Labels of your own').fill('team=vision')
  await accessible(theirs, 'all choices of a request')
  await asked.getByRole('button', { name: 'Rent', exact: true }).click()
  const title = theirs.getByRole('heading', { level: 1 })
  await expect(title.getByText('active', { exact: true })).toBeVisible({ timeout: 120_000 })
  await expect(theirs.getByText('Label team')).toBeVisible()

  await signIn(page, '/maintenances')
  const main = page.getByRole('main')
  const dialog = page.getByRole('dialog')
  await main.getByRole('button', { name: 'Announce maintenance …' }).click()
  await expect(dialog.getByRole('button', { name: 'Announce' })).toBeDisabled()
  await dialog.getByLabel('SKU').selectOption('h200-sxm-baremetal-8g')
  await dialog.getByLabel('Ask for consent').check()
  await dialog.getByLabel('Why').fill('new firmware of the network card')
  await accessible(page, 'an announcement')
  await dialog.getByRole('button', { name: 'Announce' }).click()
  await expect(dialog).toHaveCount(0)
  await expect(page.getByRole('row').filter({ hasText: 'asked, not answered yet' })).toHaveCount(1)

  await theirs.getByRole('button', { name: 'Agree to begin now …' }).click()
  await asked.getByRole('button', { name: 'Agree' }).click()
  await expect(asked).toHaveCount(0)
  await expect(page.getByRole('row').filter({ hasText: 'agreed to begin at once' })).toHaveCount(1)
  const look = page.getByRole('button', { name: /^Look at the maintenance/ })
  await look.click()
  await accessible(page, 'one maintenance')
  await dialog.getByRole('button', { name: 'Begin …' }).click()
  await dialog.getByRole('button', { name: 'Begin' }).click()
  await expect(title.getByText('repairing')).toBeVisible()
  await look.click()
  await dialog.getByRole('button', { name: 'Finish …' }).click()
  await dialog.getByLabel('Reason').fill('the new firmware runs')
  await dialog.getByRole('button', { name: 'Finish' }).click()
  await expect(main.getByText('Nothing is announced')).toBeVisible()
  await expect(title.getByText('repairing')).toHaveCount(0)
  const id = new URL(theirs.url()).pathname.split('/').pop() ?? ''
  await call('POST', `/api/v1/allocations/${id}/release`, {})
  await expect(title.getByText('released', { exact: true })).toBeVisible({ timeout: 120_000 })
  await theirs.context().close()
})
