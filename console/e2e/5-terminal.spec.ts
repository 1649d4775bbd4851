import { expect, test } from '@playwright/test'
import { call, signIn, training } from './people'

type Rented = { allocation_id: string; node_id: string; status: string; username: string }

/** anAccount rents a node of the fleet, on which its tenant then has an account. */
async function anAccount(): Promise<Rented> {
  const { project } = await training()
  const { allocation_id } = (await call<{ allocations: [Rented] }>('POST', `/api/v1/projects/${project}/allocations`, { sku: 'h200-sxm-baremetal-8g' })).allocations[0]
  const now = () => call<Rented>('GET', `/api/v1/allocations/${allocation_id}`)
  await expect.poll(async () => (await now()).status, { timeout: 120_000 }).toBe('active')
  return now()
}

// The shell is a real one, on a machine of the rack: from the browser through the control plane and the agent.
test('a terminal shows colours, follows its window, and says why it ended', async ({ page }) => {
  const complaints: string[] = []
  page.on('console', (m) => m.text().includes('Content Security Policy') && complaints.push(m.text()))
  const { node_id, username, allocation_id } = await anAccount()
  await signIn(page, `/nodes/${node_id}`)
  await page.getByRole('link', { name: 'Terminal' }).click()
  await page.getByLabel('User on the node').fill('nobody-here')
  await page.getByRole('button', { name: 'Open', exact: true }).click()
  await expect(page.getByText(/Not opened|was not opened/).first()).toBeVisible()
  await page.getByRole('button', { name: 'Leave' }).click()
  await page.getByLabel('User on the node').fill(username)
  await page.getByRole('button', { name: 'Open', exact: true }).click()
  const rows = page.locator('.xterm-rows')
  await expect(rows).toContainText('$ ')
  await page.keyboard.type(String.raw`printf '\033[38;2;10;200;30mgreen\033[0m \033[31mred\033[0m\n'` + '\n')
  await expect(rows.getByText('green', { exact: true })).toHaveCSS('color', 'rgb(10, 200, 30)')
  await expect(rows.getByText('red', { exact: true })).toHaveCSS('color', 'rgb(204, 0, 0)')
  let looks = 0
  const columns = async () => {
    const look = `look ${++looks}:`
    await page.keyboard.type(`echo "${look} $(stty size)"\n`)
    const said = new RegExp(`${look} \\d+ (\\d+)`)
    await expect(rows).toContainText(said)
    return Number(said.exec(await rows.innerText())?.[1])
  }
  const wide = await columns()
  await page.setViewportSize({ width: 800, height: 900 })
  await expect.poll(columns).toBeLessThan(wide)
  await page.keyboard.type('exit 3\n')
  await expect(page.getByText('The shell has ended with status 3.')).toBeVisible()
  await page.getByRole('button', { name: 'Open again' }).click()
  await page.getByRole('button', { name: 'Close the terminal' }).click()
  await expect(page.getByText('You closed the terminal.')).toBeVisible()
  expect(complaints).toEqual([])
  await call('POST', `/api/v1/allocations/${allocation_id}/release`, {})
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
