/**
 * A page: its route as the router knows it, with what is after the question mark. From is the list whose first
 * entry the page shows, where that is not the usual list of the last id in the route.
 */
export type Page = { name: string; path: string; from?: string }

const tabs = (path: string, prefix: string, keys: string[]): Page[] => keys.map((tab) => ({ name: `${prefix}-${tab}`, path: `${path}?tab=${tab}` }))

/** pages are all pages of the console, with something to show on each: tests visit them, and so do pictures. */
export const pages: Page[] = [
  { name: 'overview', path: '/' },
  { name: 'nodes', path: '/nodes' },
  { name: 'node', path: '/nodes/$nodeId' },
  ...tabs('/nodes/$nodeId', 'node', ['timeline', 'capabilities', 'tasks', 'drift', 'certificates']),
  { name: 'node-past', path: '/nodes/$nodeId?at=$before' },
  { name: 'sites', path: '/sites' },
  { name: 'site-new', path: '/sites/new' },
  { name: 'site', path: '/sites/$siteId' },
  ...tabs('/sites/$siteId', 'site', ['credentials', 'profiles', 'bundles', 'roce', 'power']),
  { name: 'skus', path: '/skus' },
  { name: 'lab', path: '/virtual-lab' },
  { name: 'onboardings', path: '/onboardings' },
  { name: 'onboarding-new', path: '/onboardings/new?lab=4' },
  { name: 'onboarding', path: '/onboardings/$onboardingId' },
  { name: 'onboarding-batch', path: '/onboarding-batches/$batchId', from: '/api/v1/admin/onboarding-batches' },
  { name: 'decommissions', path: '/decommissions' },
  { name: 'decommission', path: '/decommissions/$decommissionId' },
  { name: 'decommission-plan', path: '/decommissions?plan=$nodeId&mode=reimage' },
  { name: 'decommission-batch', path: '/decommission-batches/$batchId', from: '/api/v1/admin/decommission-batches' },
  { name: 'certificates', path: '/certificates' },
  { name: 'certificate', path: '/certificates/$certificateId' },
  { name: 'drift', path: '/drift' },
  { name: 'drift-node', path: '/drift/$nodeId', from: '/api/v1/admin/nodes?hostname=gpu-00005' },
  { name: 'tasks', path: '/tasks' },
  { name: 'task', path: '/tasks/$taskId' },
  { name: 'events', path: '/events' },
  { name: 'audit', path: '/audit' },
  { name: 'system', path: '/system' },
  { name: 'signers', path: '/signers' },
  { name: 'access', path: '/access' },
  { name: 'tenant', path: '/access/tenants/$orgId' },
  { name: 'tenant-renting', path: '/access/tenants/$orgId?tab=renting' },
  { name: 'project', path: '/access/projects/$projectId' },
  { name: 'project-renting', path: '/access/projects/$projectId?tab=renting' },
  { name: 'project-webhooks', path: '/access/projects/$projectId?tab=webhooks' },
  { name: 'webhook', path: '/access/projects/$projectId/webhooks/$webhookId', from: '/api/v1/projects/$projectId/webhooks' },
  { name: 'allocations', path: '/allocations' },
  { name: 'allocation', path: '/allocations/$allocationId' },
  { name: 'receipt', path: '/allocations/$allocationId/receipts/$certificateId', from: '/api/v1/projects/$projectId/allocations/$allocationId/receipts' },
  { name: 'reservations', path: '/reservations' },
  { name: 'reservation', path: '/reservations/$reservationId' },
  { name: 'maintenances', path: '/maintenances?status=all' },
  { name: 'ssh-keys', path: '/ssh-keys' },
  { name: 'node-terminal', path: '/nodes/$nodeId/terminal' },
  { name: 'not-found', path: '/nowhere' },
]
