import { describe, expect, it } from 'vitest'
import { destroyedBy } from './destroys'

describe('destroyedBy', () => {
  it.each(['node.drain', 'node.uninstall', 'node.storage_cleanup', 'node.gpu_scrub', 'node.self_update', 'allocation.deprovision_user', 'allocation.revoke_user'])('%s spells out what it does', (type) => {
    expect(destroyedBy(type)).toMatch(/\.$/)
  })

  it.each(['node.heartbeat_check', 'diag.health_probe', 'node.validate_clean', 'constructor'])('%s does no harm', (type) => {
    expect(destroyedBy(type)).toBeUndefined()
  })
})
