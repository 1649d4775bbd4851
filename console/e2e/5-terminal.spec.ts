import { expect, test } from '@playwright/test'
import { call, signIn } from './people'
import { plane } from './plane'

type Nodes = { items: { node_id: string }[] }

/** aNode is one of the fleet, or a new one where there is none yet. */
async function aNode(): Promise<string> {
  const first = async () => (await call<Nodes>('GET', '/api/v1/admin/nodes')).items[0]?.node_id
  const found = await first()
  if (found) return found
  await call('POST', '/api/v1/admin/nodes', { hostname: 'terminal-1', sku: 'h200-sxm-baremetal-8g', region_code: 'lab' })
  return (await first()) ?? ''
}

// The machines of the lab have no shells. What stands in for one here is behind the websocket: page, policy and
// protocol are the real ones.
test('a terminal shows colours, sends what is typed, and says why it ended', async ({ page }) => {
  const complaints: string[] = []
  page.on('console', (m) => m.text().includes('Content Security Policy') && complaints.push(m.text()))
  await signIn(page)
  const node = await aNode()
  await page.route('**/terminal-token', (route) =>
    route.fulfill({ status: 201, json: { session_id: 's', token: 'once', websocket_path: '/ws/terminal/s', expires_at: new Date().toISOString() } }),
  )
  const typed: string[] = []
  await page.routeWebSocket('**/ws/terminal/s', (ws) => {
    ws.onMessage((m) => {
      if (typeof m === 'string') return
      typed.push(m.toString())
      ws.send(m)
      if (m.toString().includes('\r')) ws.send(JSON.stringify({ type: 'session_closed', reason: 'shell_ended', exit_status: 0 }))
    })
    ws.send(JSON.stringify({ type: 'session_ready', session_id: 's' }))
    ws.send(Buffer.from('\x1b[38;2;10;200;30mgreen\x1b[0m \x1b[31mred\x1b[0m\r\nalice@gpu-1:~$ '))
  })
  await page.goto(`${plane.url}/nodes/${node}`)
  await page.getByRole('link', { name: 'Terminal' }).click()
  await page.getByLabel('User on the node').fill('alice')
  await page.getByRole('button', { name: 'Open', exact: true }).click()
  const rows = page.locator('.xterm-rows')
  await expect(rows).toContainText('alice@gpu-1:~$')
  await expect(rows.getByText('green')).toHaveCSS('color', 'rgb(10, 200, 30)')
  await expect(rows.getByText('red', { exact: true })).toHaveCSS('color', 'rgb(204, 0, 0)')
  await page.keyboard.type('exit')
  await expect(rows).toContainText('$ exit')
  await page.keyboard.press('Enter')
  await expect(page.getByText('The shell has ended.')).toBeVisible()
  expect(typed.join('')).toBe('exit\r')
  await page.getByRole('button', { name: 'Open again' }).click()
  await expect(page.getByRole('button', { name: 'Close the terminal' })).toBeVisible()
  await page.getByRole('button', { name: 'Close the terminal' }).click()
  await expect(page.getByText('You closed the terminal.')).toBeVisible()
  expect(complaints).toEqual([])
})

test('SSH keys are added and removed, and a private one is not sent', async ({ page }) => {
  await signIn(page, '/ssh-keys')
  await page.getByRole('button', { name: 'Add a key …' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Public key').fill('-----BEGIN OPENSSH PRIVATE KEY-----')
  await expect(dialog.getByText('it was not sent')).toBeVisible()
  await expect(dialog.getByRole('button', { name: 'Add' })).toBeDisabled()
  await dialog.getByLabel('Public key').fill('ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl laptop')
  await dialog.getByRole('button', { name: 'Add' }).click()
  await expect(dialog).toHaveCount(0)
  await expect(page.getByText('SHA256:')).toBeVisible()
  await page.getByRole('button', { name: 'Remove laptop' }).click()
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await expect(dialog).toHaveCount(0)
  await expect(page.getByText('There is none yet.').first()).toBeVisible()
})
