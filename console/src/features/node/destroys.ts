// What a task takes away that nobody gets back by asking for another one.
const destroys = new Map(Object.entries({
  'node.drain': 'Terminal sessions on the node are closed and new ones refused; with revoke_users the accounts of its allocations are removed too. Tenants who work there are cut off.',
  'node.uninstall': 'The agent and its identity are removed from the machine. The node falls silent, and comes back only when it is bootstrapped again or reimaged.',
  'node.storage_cleanup': 'What tenants left on disks and mounts is deleted for good, of those who are there now as well.',
  'node.gpu_scrub': 'GPU memory is overwritten, and the GPUs are reset if the parameters say so. Whatever runs on them ends.',
  'node.self_update': 'The agent is replaced and starts anew. If the other version does not run, somebody has to go to the machine.',
  'allocation.deprovision_user': 'The account of the allocation is removed from the node with what runs under it. Its tenant is cut off.',
  'allocation.revoke_user': 'The account of the allocation is removed from the node with what runs under it. Its tenant is cut off.',
}))

/** destroyedBy says what a type of task destroys; undefined when it does no harm. */
export function destroyedBy(type: string): string | undefined {
  return destroys.get(type)
}
