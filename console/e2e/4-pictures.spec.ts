import { expect, test } from '@playwright/test'
import { call, signIn } from './people'
import { addresses, visit } from './visit'

// A fleet in which nothing is wrong shows little: let something be.
test.beforeAll(async () => {
  const site = (await call<{ items: { site_id: string }[] }>('GET', '/api/v1/admin/maas-sites')).items[0]?.site_id ?? ''
  await call('POST', '/lab/machines/gpu-00012/happen', { what: 'deploy' })
  const nodes = ['11', '12', '13', '14', '15', '16'].map((n) => ({ hostname: `gpu-000${n}`, ipmi_ip: `10.128.0.${n}` }))
  await call('POST', '/api/v1/admin/onboardings/batch', { site_id: site, sku_id: 'h200-sxm-baremetal-8g', nodes })
  await call('POST', '/lab/machines/gpu-00002/happen', { what: 'hardware' })
  await call('POST', '/lab/machines/gpu-00006/happen', { what: 'release' })
  await expect
    .poll(async () => (await call<{ items: { status: string }[] }>('GET', '/api/v1/admin/onboardings?hostname=gpu-00012')).items[0]?.status, { timeout: 120_000 })
    .toContain('failed')
  await call('POST', '/api/v1/admin/reconciliation/run', { site_id: site })
  await expect
    .poll(async () => (await call<{ items: unknown[] }>('GET', '/api/v1/admin/nodes?status=quarantined')).items.length, { timeout: 120_000 })
    .toBeGreaterThanOrEqual(2)
})

const looks = [
  { folder: 'light', colorScheme: 'light', viewport: { width: 1440, height: 900 } },
  { folder: 'dark', colorScheme: 'dark', viewport: { width: 1440, height: 900 } },
  { folder: 'narrow', colorScheme: 'light', viewport: { width: 400, height: 800 } },
] as const

for (const { folder, ...look } of looks) {
  test(`pictures, ${folder}`, async ({ browser }) => {
    const page = await browser.newPage(look)
    await signIn(page)
    for (const { name, path } of await addresses()) {
      await visit(page, path)
      await page.screenshot({ path: `screenshots/${folder}/${name}.png` })
    }
    await page.close()
  })
}
