import { expect, type Browser, type Page } from '@playwright/test'
import { plane, type admin } from './plane'

/** signIn signs in with the token of the first administrator. */
export async function signIn(page: Page, to = '/') {
  await page.goto(plane.url + to)
  await page.getByLabel('API token').fill(plane.token)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await expect(page.getByRole('button', { name: 'Sign out' })).toBeVisible()
}

/** comeAs signs a person in through the identity provider, in a browser of their own. */
export async function comeAs(browser: Browser, who: typeof admin, to = '/'): Promise<Page> {
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(plane.url + to)
  await page.getByRole('button', { name: /Sign in with/ }).click()
  await page.getByRole('link', { name: who.name }).click()
  return page
}

/** call asks the API with the administrator's token, past the console. */
export async function call<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
  const response = await fetch(plane.url + path, {
    method,
    headers: { Authorization: `Bearer ${plane.token}`, 'Content-Type': 'application/json', ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return (await response.json()) as T
}

type Listed = { items: { org_id: string; project_id: string; slug: string }[] }

/** training is the project in which the stories rent, and its tenant. */
export async function training() {
  const org = (await call<Listed>('GET', '/api/v1/tenants?page_size=200')).items.find((t) => t.slug === 'research')?.org_id
  if (!org) throw new Error('there is no tenant research: 3-rent.spec.ts was to make it')
  const project = (await call<Listed>('GET', `/api/v1/tenants/${org}/projects`)).items.find((p) => p.slug === 'training')?.project_id ?? ''
  return { org, project }
}
