import { expect, type Page } from '@playwright/test'
import { pages } from './pages'
import { call } from './people'
import { plane } from './plane'

type Listed = { items: Record<string, string>[] }

const ended = '/api/v1/admin/allocations?status=released'

/** The lists whose first entries give the ids in routes. */
const lists: Record<string, string> = {
  nodeId: '/api/v1/admin/nodes?sort=hostname',
  siteId: '/api/v1/admin/maas-sites',
  onboardingId: '/api/v1/admin/onboardings?hostname=gpu-00003',
  decommissionId: '/api/v1/admin/decommissions',
  certificateId: '/api/v1/admin/certificates',
  rolloutId: '/api/v1/admin/agent-rollouts',
  taskId: '/api/v1/admin/node-tasks',
  definitionId: '/api/v1/operation-definitions',
  operationId: '/api/v1/admin/operations?status=succeeded',
  orgId: '/api/v1/tenants',
  projectId: ended,
  allocationId: ended,
  reservationId: '/api/v1/reservations',
}

/** filled puts ids that exist in the place of the names in a path; those of the last come from a list. */
async function filled(path: string, from?: string): Promise<string> {
  const names = [...path.matchAll(/\$(\w+)/g)].map((m) => m[1] ?? '')
  for (const [i, name] of names.entries()) {
    const list = from && i === names.length - 1 ? await filled(from) : lists[name]
    const value = name === 'before' ? new Date(Date.now() - 5_000).toISOString() : await first(list, name)
    path = path.replace(`$${name}`, encodeURIComponent(value))
  }
  return path
}

async function first(list: string | undefined, name: string): Promise<string> {
  if (!list) throw new Error(`visit.ts does not say which list has a ${name}`)
  const found = (await call<Listed>('GET', list)).items[0]?.[name.replace(/[A-Z]/, (c) => `_${c.toLowerCase()}`)]
  if (!found) throw new Error(`${list} lists no ${name}: the stories before were to make it`)
  return found
}

/** addresses are where all pages are found in this control plane. */
export const addresses = () => Promise.all(pages.map(async ({ name, path, from }) => ({ name, path: await filled(path, from) })))

/** visit opens a page and waits until it shows what it has. */
export async function visit(page: Page, path: string) {
  await page.goto(plane.url + path)
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
  await expect(page.getByText(/^Loading /)).toHaveCount(0)
}
