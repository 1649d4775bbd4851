import { expect, test } from '@playwright/test'
import { call, comeAs, signIn } from './people'
import { auditor, plane, stranger } from './plane'

test('a wrong token is refused and says what to do', async ({ page }) => {
  await page.goto(plane.url)
  await page.getByLabel('API token').fill('gpuaas_pnonsense')
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await expect(page.getByRole('alert')).toContainText('the token is not valid')
})

test('the session is a cookie that scripts cannot read, and ends with signing out', async ({ page, context }) => {
  const strayed: string[] = []
  page.on('request', (r) => !r.url().startsWith(plane.url) && !r.url().startsWith('data:') && strayed.push(r.url()))
  const complaints: string[] = []
  page.on('console', (m) => m.text().includes('Content Security Policy') && complaints.push(m.text()))
  await signIn(page, '/system')
  await expect(page).toHaveURL(/\/system$/) // where one wanted to go
  await expect(page.getByText('Live', { exact: true })).toBeVisible()
  const cookie = (await context.cookies()).find((c) => c.name === `gpuaas_session_${new URL(plane.url).port}`)
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' })
  expect(await page.evaluate(() => document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage))).not.toContain('gpuaas_')
  expect(strayed).toEqual([])
  expect(complaints).toEqual([])

  await page.getByRole('button', { name: 'Sign out' }).click()
  await expect(page.getByLabel('API token')).toBeVisible()
  const replayed = await fetch(`${plane.url}/api/v1/me`, { headers: { Cookie: `${cookie?.name}=${cookie?.value}` } })
  expect(replayed.status).toBe(401)
})

test('a page of another origin cannot act with the session', async ({ page, context }) => {
  await signIn(page)
  const other = await context.newPage()
  await other.route('http://elsewhere.example/', (route) => route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>elsewhere</title>' }))
  await other.goto('http://elsewhere.example/')
  const before = (await call<{ items: unknown[] }>('GET', '/api/v1/admin/self-checks')).items.length
  await other.evaluate(async (url) => {
    // what such a page can send without asking first
    await fetch(`${url}/api/v1/admin/self-checks`, { method: 'POST', mode: 'no-cors', credentials: 'include' }).catch(() => undefined)
  }, plane.url)
  expect((await call<{ items: unknown[] }>('GET', '/api/v1/admin/self-checks')).items.length).toBe(before)
})

test('an auditor signs in through the identity provider, sees everything and changes nothing', async ({ browser }) => {
  await call('POST', '/api/v1/admin/users', { email: auditor.email, name: auditor.name, platform_role: 'auditor' })
  const page = await comeAs(browser, auditor, '/sites')
  await expect(page).toHaveURL(/\/sites$/)
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
  for (const entry of ['Overview', 'Nodes', 'Sites', 'Onboarding', 'Turnover', 'Drift', 'Tasks', 'Events', 'Audit log', 'System health']) {
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: entry, exact: true }).click()
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
    await expect(page.getByRole('alert')).toHaveCount(0)
    await expect(page.getByRole('main').getByRole('link', { name: /^(New|Add|Create|Onboard)/ })).toHaveCount(0)
    await expect(page.getByRole('main').getByRole('button', { name: /^(New|Add|Create|Onboard|Run|Check now)/ })).toHaveCount(0)
  }
  await expect(page.getByRole('link', { name: 'Virtual lab' })).toHaveCount(0)
  const refused = await page.evaluate(async () => (await fetch('/api/v1/admin/self-checks', { method: 'POST' })).status)
  expect(refused).toBe(403)
  await page.context().close()
})

test('whoever was not invited is told so', async ({ browser }) => {
  const page = await comeAs(browser, stranger)
  await expect(page.getByRole('alert')).toContainText('nobody has invited this e-mail address')
  await page.context().close()
})
