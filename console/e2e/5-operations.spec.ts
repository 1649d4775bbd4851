import { expect, test, type Route } from '@playwright/test'
import { accessible } from './flaws'
import { call, signIn } from './people'

const nodes = ['gpu-00001', 'gpu-00002']

// The agents are real ones, in machines of the rack: files are written there, and what steps say comes from them.
test('an operation is planned, run on two nodes, followed, and explained where it fails', async ({ page }) => {
  await signIn(page, '/operations/catalog')
  const main = page.getByRole('main')
  const title = page.getByRole('heading', { level: 1 })
  await main.getByRole('link', { name: 'Write a file' }).click()
  await expect(main.getByText('node.file.render@v1')).toBeVisible()
  await main.getByRole('link', { name: 'Run …' }).click()

  // The form is that of the schema, and says what is wrong before anything is sent.
  await main.getByLabel('Path of the file').fill('etc/demo')
  await expect(main.getByText('A path must begin with /.')).toBeVisible()
  await main.getByLabel('Path of the file').fill('/etc/demo/console.conf')
  await main.getByLabel('What the file shall hold').fill('written by the console')
  await main.getByRole('button', { name: 'Plan', exact: true }).click()
  await expect(main.getByText('Choose at least one node.')).toBeVisible()
  await main.getByLabel('Names of nodes').fill(nodes.join('\n'))
  await main.getByRole('button', { name: 'Plan', exact: true }).click()
  await expect(main.getByRole('list', { name: 'The plan in sentences' }).getByText('on 2 of 2 nodes')).toBeVisible()
  await expect(main.getByRole('grid', { name: 'Nodes of the plan' }).getByText('fits', { exact: true })).toHaveCount(2)
  await accessible(page, 'the plan of a run')

  // A plan that is not of what is asked for any more is not run.
  await main.getByLabel('Its mode, octal').selectOption('0600')
  await expect(main.getByText('The plan is out of date')).toBeVisible()
  await expect(main.getByRole('button', { name: /^Run on/ })).toHaveCount(0)
  await main.getByRole('button', { name: 'Plan again' }).click()
  await main.getByRole('button', { name: 'Run on 2 of 2 nodes' }).click()
  await expect(page).toHaveURL(/\/operations\/[0-9a-f-]{36}/)
  await expect(title.getByText('succeeded')).toBeVisible({ timeout: 180_000 })
  const board = main.getByRole('grid', { name: 'Nodes and steps' })
  await expect(board.getByText('changed')).toHaveCount(2)

  // What it changed is listed: the file on each node, whose content is not told, because its mode hides it.
  await main.getByRole('tab', { name: 'Changes' }).click()
  const changes = main.getByRole('grid', { name: 'Changes' })
  await expect(changes.getByRole('row').filter({ hasText: '/etc/demo/console.conf' }).filter({ hasText: 'created' })).toHaveCount(2)
  await main.getByLabel('Node', { exact: true }).selectOption({ label: 'gpu-00001' })
  await expect(changes.getByText('gpu-00002')).toHaveCount(0)
  await main.getByRole('button', { name: 'Details of /etc/demo/console.conf on gpu-00001' }).click()
  await expect(page.getByRole('dialog').getByText('not every user of the node may read the file')).toBeVisible()
  await page.keyboard.press('Escape')

  // What failed says why and what to do, and goes on at its step.
  const found = await Promise.all(nodes.map(async (hostname) => (await call<{ items: { node_id: string }[] }>('GET', `/api/v1/admin/nodes?hostname=${hostname}`)).items[0]?.node_id))
  const inputs = { free_mib: 1_000_000_000, within_seconds: 0 }
  const { operation_id } = await call<{ operation_id: string }>('POST', '/api/v1/admin/operations', { operation: 'node.health.check', inputs, targets: { nodes: found }, max_failures: 1 })
  await page.goto(new URL(`/operations/${operation_id}`, page.url()).href)
  await expect(title.getByText('failed')).toBeVisible({ timeout: 180_000 })
  await expect(main.getByRole('heading', { name: 'What went wrong' })).toBeVisible()
  await main.getByRole('button', { name: 'Details of gpu-00001' }).click()
  const dialog = page.getByRole('dialog')
  await expect(dialog.getByRole('heading', { name: 'Attempt 1' })).toBeVisible()
  await accessible(page, 'a node of a run')
  await dialog.getByRole('button', { name: 'Retry from here …' }).click()
  await dialog.getByLabel('Reason').fill('the disk was emptied')
  await dialog.getByRole('button', { name: 'Retry', exact: true }).click()
  await expect(dialog).toHaveCount(0)
  await expect(board.getByRole('row').filter({ hasText: 'gpu-00001' }).getByText('attempt 2')).toBeVisible({ timeout: 180_000 })
  await expect(board.getByRole('row').filter({ hasText: 'gpu-00002' }).getByText('attempt 2')).toHaveCount(0)

  // Its log is narrowed, searched, and followed to its end. Steps of this rack print nothing: what they would print is made up.
  await page.route('**/logs?*', (route) => printed(route, operation_id))
  await main.getByRole('tab', { name: 'Log' }).click()
  const log = main.getByRole('log')
  await main.getByLabel('Follow').uncheck()
  await expect(log.getByText('there is no room')).toHaveCount(2)
  await main.getByLabel('Node', { exact: true }).selectOption({ label: 'gpu-00001' })
  await expect(log.getByText('there is no room')).toHaveCount(1)
  await main.getByLabel('Follow').check()
  await expect(main.getByText('The run has ended: failed')).toBeVisible()
  await expect(log.getByText('there is no room')).toHaveCount(1)
  await main.getByLabel('Search').fill('nowhere')
  await expect(log.getByText('there is no room')).toHaveCount(0)
  expect(new URL(page.url()).searchParams.get('q')).toBe('nowhere')
})

async function printed(route: Route, operation: string) {
  const query = new URL(route.request().url()).searchParams
  const { items } = await call<{ items: { target_id: string; node_id: string; hostname: string }[] }>('GET', `/api/v1/admin/operations/${operation}/targets`)
  const lines = items
    .filter((t) => !query.get('target') || query.get('target') === t.target_id)
    .map((t, i) => ({ ...t, step_id: 'check', stream: 'stderr', at: '2026-01-01T00:00:00Z', seq: i + 1, text: 'there is no room' }))
    .filter((l) => l.text.includes(query.get('q') ?? ''))
    .map(({ target_id, node_id, hostname, step_id, stream, at, seq, text }) => ({ target_id, node_id, hostname, step_id, stream, at, seq, text }))
  if (query.get('follow') !== 'true') return route.fulfill({ json: { items: lines } })
  const events = [...lines.map((l) => `id: 1-${l.seq}\nevent: line\ndata: ${JSON.stringify(l)}\n\n`), 'event: end\ndata: {"status":"failed"}\n\n']
  return route.fulfill({ contentType: 'text/event-stream', body: events.join('') })
}
