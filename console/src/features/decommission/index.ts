import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Work', place: 2, title: 'Turnover', to: '/decommissions', needs: 'decommission:read' },
  routes: [
    { path: '/decommissions', page: () => import('./Decommissions') },
    { path: '/decommissions/$decommissionId', page: () => import('./DecommissionPage') },
    { path: '/decommission-batches/$batchId', page: () => import('./DecommissionBatch') },
  ],
}
