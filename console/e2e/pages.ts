import { call } from './people'

type Page = { name: string; path: string }
type Listed = { items: Record<string, string>[] }

/** pages are all pages of the console, with something to show on each: tests visit them, and so do pictures. */
export async function pages(): Promise<Page[]> {
  const first = async (path: string, key: string) => {
    const found = (await call<Listed>('GET', path)).items[0]?.[key]
    if (!found) throw new Error(`${path} lists nothing: the stories before were to make it`)
    return found
  }
  const site = await first('/api/v1/admin/maas-sites', 'site_id')
  const node = await first('/api/v1/admin/nodes?sort=hostname', 'node_id')
  const tabs = (path: string, prefix: string, keys: string[]) => keys.map((tab) => ({ name: `${prefix}-${tab}`, path: `${path}?tab=${tab}` }))
  return [
    { name: 'overview', path: '/' },
    { name: 'nodes', path: '/nodes' },
    { name: 'node', path: `/nodes/${node}` },
    ...tabs(`/nodes/${node}`, 'node', ['timeline', 'capabilities', 'tasks', 'drift', 'certificates']),
    { name: 'node-past', path: `/nodes/${node}?at=${encodeURIComponent(new Date(Date.now() - 5_000).toISOString())}` },
    { name: 'sites', path: '/sites' },
    { name: 'site-new', path: '/sites/new' },
    { name: 'site', path: `/sites/${site}` },
    ...tabs(`/sites/${site}`, 'site', ['credentials', 'profiles', 'bundles', 'roce', 'power']),
    { name: 'skus', path: '/skus' },
    { name: 'lab', path: '/virtual-lab' },
    { name: 'onboardings', path: '/onboardings' },
    { name: 'onboarding-new', path: '/onboardings/new?lab=4' },
    { name: 'onboarding', path: `/onboardings/${await first('/api/v1/admin/onboardings?hostname=gpu-00003', 'onboarding_id')}` },
    { name: 'onboarding-batch', path: `/onboarding-batches/${await first('/api/v1/admin/onboarding-batches', 'batch_id')}` },
    { name: 'decommissions', path: '/decommissions' },
    { name: 'decommission', path: `/decommissions/${await first('/api/v1/admin/decommissions', 'decommission_id')}` },
    { name: 'decommission-plan', path: `/decommissions?plan=${node}&mode=reimage` },
    { name: 'certificates', path: '/certificates' },
    { name: 'certificate', path: `/certificates/${await first('/api/v1/admin/certificates', 'certificate_id')}` },
    { name: 'drift', path: '/drift' },
    { name: 'drift-node', path: `/drift/${await first('/api/v1/admin/nodes?hostname=gpu-00005', 'node_id')}` },
    { name: 'tasks', path: '/tasks' },
    { name: 'task', path: `/tasks/${await first('/api/v1/admin/node-tasks', 'task_id')}` },
    { name: 'events', path: '/events' },
    { name: 'audit', path: '/audit' },
    { name: 'system', path: '/system' },
    { name: 'signers', path: '/signers' },
    { name: 'access', path: '/access' },
    { name: 'allocations', path: '/allocations' },
    { name: 'ssh-keys', path: '/ssh-keys' },
    { name: 'node-terminal', path: `/nodes/${node}/terminal` },
    { name: 'not-found', path: '/nowhere' },
  ]
}
