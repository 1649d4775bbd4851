import { expect, test, type Page } from '@playwright/test'
import { accessible } from './flaws'
import { call, signIn } from './people'
import { plane } from './plane'

// One day of a newcomer, told in one browser: nothing but the console is used, and
// each step begins where the console says to go on.
test.describe.configure({ mode: 'serial' })

let page: Page

test.beforeAll(async ({ browser }) => {
  page = await browser.newPage()
  await signIn(page)
})
test.afterAll(async () => page.close())

const main = () => page.getByRole('main')
const goTo = (entry: string) => page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: entry, exact: true }).click()
const row = (name: string) => page.getByRole('row').filter({ hasText: name })

async function happen(machine: string, what: string) {
  await goTo('Virtual lab')
  await page.getByRole('button', { name: `Let something happen to ${machine}` }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('radio', { name: what }).check()
  await dialog.locator('button[type=submit]').click()
  await expect(dialog).toHaveCount(0)
}

async function heal(machine: string) {
  await goTo('Virtual lab')
  await page.getByRole('button', { name: `Heal ${machine}` }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Heal' }).click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
}

test('an empty fleet says what to do, and the demo site comes into being', async () => {
  await expect(main().getByRole('heading', { name: 'There are no nodes yet' })).toBeVisible()
  await main().getByRole('link', { name: 'Open the virtual lab' }).click()
  await main().getByRole('link', { name: 'Create the demo site' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Create it' }).click()
  await expect(page.getByRole('dialog').getByText('Site lab is ready for work')).toBeVisible({ timeout: 60_000 })
  await page.keyboard.press('Escape')
  await goTo('Sites')
  await expect(row('lab').first()).toBeVisible()
})

test('what is wrong with rows is said row by row before anything is sent', async () => {
  await page.goto(new URL('/onboardings/new', page.url()).href)
  await page.getByRole('textbox', { name: 'Machines' }).fill('hostname,ipmi_ip\ngpu-00001,10.128.0.1\nGPU 2,10.128.0.2\ngpu-00001,10.128.0.3\ngpu-00004,nowhere\n')
  await expect(row('gpu-00004')).toBeVisible()
  await expect(main().getByRole('button', { name: 'Preflight' })).toBeDisabled()
  await expect(main().getByText('Fix the marked rows; nothing has been sent.')).toBeVisible()
})

test('ten machines are onboarded; one that is broken is parked, explained and recovered', async () => {
  await happen('gpu-00003', 'Installation fails')
  await main().getByLabel('How many').fill('10')
  await main().getByRole('link', { name: 'Onboard 10 machines' }).click()
  await expect(row('gpu-00010')).toBeVisible()
  await main().getByRole('button', { name: 'Preflight' }).click()
  await main().getByRole('button', { name: 'Start 10 onboardings' }).click()
  await expect(page).toHaveURL(/onboarding-batches/)
  await expect(row('gpu-00001').getByText('completed')).toBeVisible({ timeout: 120_000 })
  await expect(main().getByText('1 of 10 is waiting for you')).toBeVisible({ timeout: 120_000 })
  const board = page.url()

  await row('gpu-00003').getByRole('link', { name: 'gpu-00003' }).click()
  await expect(main().getByText('What can be done now')).toBeVisible()
  await expect(main().getByText('recommended')).toBeVisible()
  const job = page.url()

  await heal('gpu-00003')
  await page.goto(job)
  await main().locator('li').filter({ hasText: 'recommended' }).getByRole('button').click()
  const dialog = page.getByRole('dialog')
  await expect(dialog.locator('button[type=submit]')).toBeDisabled() // not without a reason
  await dialog.getByLabel('Reason').fill('the machine was mended')
  if (await dialog.getByLabel(/Type .* to confirm/).count()) await dialog.getByLabel(/Type .* to confirm/).fill('gpu-00003')
  await dialog.locator('button[type=submit]').click()
  await expect(dialog).toHaveCount(0)
  await page.goto(board)
  await expect(main().getByText('All 10 are nodes now')).toBeVisible({ timeout: 120_000 })

  await goTo('Overview')
  await expect(main().getByText('Nothing needs your attention')).toBeVisible()
  await goTo('Nodes')
  await expect(page.getByRole('grid').getByText('active', { exact: true })).toHaveCount(10)
})

test('machines that are parked for one cause are recovered with one decision', async () => {
  for (const machine of ['gpu-00011', 'gpu-00012']) await happen(machine, 'Commissioning fails')
  await main().getByLabel('How many').fill('2')
  await main().getByRole('link', { name: 'Onboard 2 machines' }).click()
  await main().getByRole('button', { name: 'Preflight' }).click()
  await main().getByRole('button', { name: 'Start 2 onboardings' }).click()
  await expect(page).toHaveURL(/onboarding-batches/)
  const board = page.url()
  await expect(main().getByText('2 are parked for the same reason')).toBeVisible({ timeout: 120_000 })
  for (const machine of ['gpu-00011', 'gpu-00012']) await heal(machine)
  await page.goto(board)
  await main().getByRole('button', { name: /for these 2/ }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('the switch was mended')
  const asked: string[] = []
  page.on('request', (r) => {
    if (r.method() === 'POST' && r.url().includes('/onboardings/')) asked.push(new URL(r.url()).pathname)
  })
  await dialog.locator('button[type=submit]').click()
  await expect(dialog).toHaveCount(0)
  expect(asked).toEqual(['/api/v1/admin/onboardings/actions'])
  await expect(main().getByText('All 2 are nodes now')).toBeVisible({ timeout: 120_000 })
})

test('the table of nodes is used with the keyboard, and a node tells its story', async () => {
  await goTo('Nodes')
  await page.getByRole('button', { name: /^Host ?name/ }).click()
  await expect(page.getByRole('columnheader', { name: /Host ?name/ })).toHaveAttribute('aria-sort', 'descending')
  await expect(page.getByRole('grid').getByRole('row').nth(1)).toContainText('gpu-00012')
  await row('gpu-00012').focus()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { level: 1 })).toContainText('gpu-00011')
  for (const tab of await page.getByRole('tab').all()) {
    await tab.click()
    await expect(tab).toHaveAttribute('aria-selected', 'true')
    await expect(main().getByRole('alert')).toHaveCount(0)
  }
})

test('filters are folded, and a telephone shows nodes on its first screen', async () => {
  await goTo('Nodes')
  const chip = main().getByRole('button', { name: 'Remove filter State: offline' })
  await main().getByRole('button', { name: 'Filters' }).click()
  await main().getByLabel('State', { exact: true }).selectOption('offline')
  await expect(main().getByRole('heading', { name: 'No node matches these filters' })).toBeVisible()
  await chip.click()
  await expect(chip).toHaveCount(0)
  await expect(row('gpu-00001')).toBeVisible()
  await main().getByLabel('State', { exact: true }).selectOption('active')
  await main().getByLabel('Search').fill('gpu-0001')
  await expect(main().getByRole('button', { name: 'Remove filter Search: gpu-0001' })).toBeVisible()
  await expect(row('gpu-00001')).toHaveCount(0)
  await main().getByRole('button', { name: 'Clear all' }).click()
  await expect(main().getByRole('button', { name: /^Remove filter/ })).toHaveCount(0)
  await main().getByRole('button', { name: 'Filters' }).click()
  await expect(main().getByLabel('State', { exact: true })).toBeHidden()

  const before = page.viewportSize() ?? { width: 0, height: 0 }
  const telephone = { width: 400, height: 800 }
  await page.setViewportSize(telephone)
  await page.reload()
  const first = page.getByRole('grid').getByRole('row').nth(1)
  await expect(first).toContainText('gpu-00001')
  const at = await first.boundingBox()
  expect((at?.y ?? Infinity) + (at?.height ?? 0)).toBeLessThan(telephone.height)
  await page.setViewportSize(before)
})

test('anything is found by its name from anywhere, and what is not there is said not to be', async () => {
  await goTo('Overview')
  const box = page.getByRole('combobox', { name: 'Search' })
  const option = (name: string | RegExp) => page.getByRole('option', { name })
  await page.keyboard.press('/')
  await box.fill('gpu-0001')
  await expect(option(/^gpu-00010.*active$/)).toBeVisible()
  await expect(option(/^gpu-00010.*Onboarding.*completed$/)).toBeVisible()
  await accessible(page, 'search')
  await page.keyboard.press('ArrowDown')
  await expect(option(/^gpu-00011.*active$/)).toHaveAttribute('aria-selected', 'true')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { level: 1 })).toContainText('gpu-00011')

  const hardware = await call<{ known: { system_serial: string; macs: string[] } }>('GET', `/api/v1/admin/nodes/${page.url().split('/').pop() ?? ''}/hardware`)
  await page.keyboard.press('Control+k')
  for (const label of [hardware.known.system_serial, hardware.known.macs[0] ?? '']) {
    await box.fill(label)
    await expect(option(/^gpu-00011.*by id, address, serial or MAC/)).toBeVisible()
  }
  await box.fill('lab')
  await expect(page.getByRole('group', { name: 'Sites' }).getByRole('option', { name: /^lab/ })).toBeVisible()
  await box.fill('no such thing')
  await expect(page.getByText('Nothing that you may see is called “no such thing”.')).toBeVisible()
  await page.route('**/api/v1/admin/fleet/map?*', (route) => route.abort())
  await box.fill('gpu-00012')
  await expect(page.getByText('Nodes could not be searched. The control plane does not answer.')).toBeVisible()
  await page.unroute('**/api/v1/admin/fleet/map?*')
  await box.fill('audit')
  await expect(option(/^Audit log/)).toHaveAttribute('aria-selected', 'true')
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(/\/audit$/)

  await page.keyboard.press('/')
  await page.keyboard.press('Escape')
  await expect(box).toHaveCount(0)
  await page.goto(new URL('/nodes/gpu-00009?tab=drift', page.url()).href)
  await expect(page.getByRole('heading', { level: 1 })).toContainText('gpu-00009')
  await expect(page).toHaveURL(/\/nodes\/[0-9a-f-]{36}\?tab=drift$/)
  await page.goto(new URL('/nodes/gpu-09999', page.url()).href)
  await expect(main().getByRole('heading', { name: 'There is no node called gpu-09999' })).toBeVisible()
  await page.goto(new URL('/nodes/0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c', page.url()).href)
  await expect(main().getByRole('heading', { name: 'There is no such node' })).toBeVisible()
})

test('a machine that fails behind our back is found, taken out and returned to service', async () => {
  await happen('gpu-00005', 'A hardware test fails')
  await goTo('Drift')
  await main().getByRole('button', { name: /^Check now/ }).first().click()
  await page.getByRole('dialog').locator('button[type=submit]').click()
  await expect(main().getByText('gpu-00005').first()).toBeVisible({ timeout: 90_000 })
  await page.keyboard.press('Escape')
  await goTo('Nodes')
  await expect(row('gpu-00005').getByText('quarantined')).toBeVisible({ timeout: 120_000 })

  await heal('gpu-00005')
  await goTo('Drift')
  await main().getByRole('link', { name: 'gpu-00005' }).first().click()
  await main().getByRole('button', { name: /^Resolve/ }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('radio', { name: /return/i }).check()
  await dialog.getByLabel('Reason').fill('board replaced')
  await dialog.locator('button[type=submit]').click()
  await expect(dialog.getByRole('status').last()).toBeVisible({ timeout: 60_000 })
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await goTo('Nodes')
  await expect(row('gpu-00005').getByText('active', { exact: true })).toBeVisible({ timeout: 60_000 })
})

test('three nodes are turned over with one decision', async () => {
  await page.goto(new URL('/decommissions?new=1&mode=soft_reset', page.url()).href)
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name starts with').fill('gpu-0001')
  await expect(dialog.getByText('3 nodes match')).toBeVisible()
  await dialog.getByLabel('Reason').fill('their tenants left')
  if (await dialog.getByLabel(/^Type /).count()) await dialog.getByLabel(/^Type /).fill('soft reset 3 nodes')
  await dialog.locator('button[type=submit]').click()
  await expect(page).toHaveURL(/\/decommission-batches\/[0-9a-f-]+/)
  for (const machine of ['gpu-00010', 'gpu-00011', 'gpu-00012']) {
    await expect(row(machine).getByText('completed')).toBeVisible({ timeout: 120_000 })
  }
})

test('a node is turned over, with a document that proves it', async () => {
  await goTo('Nodes')
  await row('gpu-00007').focus()
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(/nodes\/[0-9a-f-]+/)
  await page.goto(new URL(`/decommissions?plan=${page.url().split('/').pop()?.split('?')[0]}&mode=soft_reset`, page.url()).href)
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('tenant left')
  if (await dialog.getByLabel(/^Type /).count()) await dialog.getByLabel(/^Type /).fill('gpu-00007')
  await dialog.locator('button[type=submit]').click()
  await expect(page).toHaveURL(/\/decommissions\/[0-9a-f-]+/)
  await expect(page.getByRole('heading', { level: 1 }).getByText('completed')).toBeVisible({ timeout: 120_000 })
  await goTo('Certificates')
  await expect(row('gpu-00007').first()).toBeVisible()
})

test('who did all that is in the audit log', async () => {
  await goTo('Audit log')
  await expect(page.getByRole('grid')).toContainText(/requested the turnover of gpu-\d+/)
})

test('a control plane that cannot be heard is said to be so, and comes back', async () => {
  await goTo('Overview')
  await expect(page.getByText('Live', { exact: true })).toBeVisible()
  process.kill(plane.pid, 'SIGSTOP') // it holds its connections and says nothing any more
  try {
    await expect(page.getByText('What you see may be out of date.')).toBeVisible({ timeout: 60_000 })
  } finally {
    process.kill(plane.pid, 'SIGCONT')
  }
  await expect(page.getByText('Live', { exact: true })).toBeVisible({ timeout: 30_000 })
  await expect(page.getByText('What you see may be out of date.')).toHaveCount(0)
})
