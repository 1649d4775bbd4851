import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@playwright/test'
import { accessible } from './flaws'
import { call, signIn } from './people'
import { plane } from './plane'

const version = '9.0.0'

/** released is a release whose programs say that they are another version: nodes take it back. */
function released() {
  const folder = mkdtempSync(join(plane.state, 'release-'))
  const programs = join('..', 'bin', 'agent', readdirSync(join('..', 'bin', 'agent'))[0] ?? '')
  const gpuaas = (...args: string[]) => execFileSync('../bin/gpuaas', args, { env: { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder }, encoding: 'utf8' })
  gpuaas('login', '--url', plane.url, '--token-file', join(plane.state, 'admin-token'))
  gpuaas('agent', 'release', 'build', programs, folder, '--version', version, '--commit', '0123456789ab', '--key', join(plane.state, 'release.key'), '--notes', 'for the console')
  const signed = readdirSync(folder).find((f) => f.startsWith(`gpuaas-agent-${version}`) && f.endsWith('.json')) ?? ''
  gpuaas('agent', 'release', 'upload', join(folder, signed))
}

test('a release is promoted, looked at before its rollout, and stopped where it does harm', async ({ page }) => {
  released()
  const node = (await call<{ items: { node_id: string; hostname: string }[] }>('GET', '/api/v1/admin/nodes?status=active&sort=hostname')).items[0]
  if (!node) throw new Error('no node is active: the stories before were to make some')
  const path = `/api/v1/admin/nodes/${node.node_id}`
  const seen = await fetch(plane.url + path, { headers: { Authorization: `Bearer ${plane.token}` } })
  await call('PATCH', path, { agent_channel: 'candidate' }, { 'If-Match': seen.headers.get('ETag') ?? '' })
  await signIn(page, '/agents')
  const main = page.getByRole('main')

  // The fleet is a picture, whose parts lead to their nodes.
  await expect(main.getByRole('list', { name: 'Versions' }).getByRole('link', { name: /candidate/ })).toBeVisible()
  await main.getByRole('button', { name: `Promote ${version} to candidate` }).click()
  await page.getByRole('dialog').getByLabel('Reason').fill('first nodes')
  await page.getByRole('dialog').getByRole('button', { name: 'Promote', exact: true }).click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  const outdated = main.getByRole('list', { name: 'Versions' }).getByRole('link', { name: /candidate, outdated: 1 node/ })
  await outdated.click()
  await expect(main.getByRole('grid', { name: 'Nodes' }).getByRole('link', { name: node.hostname })).toBeVisible()
  await page.goBack()

  // Who is meant is seen before anything begins.
  await main.getByRole('link', { name: 'Roll a release out …' }).click()
  await main.getByLabel('Channel', { exact: true }).selectOption('candidate')
  await main.getByLabel('Seconds to watch a node').fill('1')
  await main.getByLabel('Reason').fill('tried in the console')
  await main.getByRole('button', { name: 'Preview the nodes' }).click()
  await expect(main.getByRole('list', { name: 'Canaries' }).getByRole('button')).toHaveCount(1)
  await accessible(page, 'a rollout before it begins')
  await main.getByRole('button', { name: 'Start the rollout to 1 node' }).click()

  // The canary fails, and says why; nothing goes on until somebody decides.
  await expect(page).toHaveURL(/\/agents\/rollouts\/[0-9a-f-]{36}/)
  await expect(main.getByText('It is paused: no further node is updated')).toBeVisible({ timeout: 300_000 })
  await expect(main.getByRole('list', { name: 'Canaries' }).getByRole('button', { name: new RegExp(`^${node.hostname}: failed, `) })).toBeVisible()
  await accessible(page, 'a rollout that is paused')
  await main.getByRole('button', { name: 'Abort …' }).click()
  await page.getByRole('dialog').getByLabel('Reason').fill('it is bad')
  await page.getByRole('dialog').getByRole('button', { name: 'Abort', exact: true }).click()
  await expect(page.getByRole('heading', { level: 1 }).getByText('aborted')).toBeVisible()
})
