import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Operations', place: 1, title: 'Drift', to: '/drift', needs: 'reconciliation:read' },
  routes: [
    { path: '/drift', page: () => import('./Drift') },
    { path: '/drift/$nodeId', page: () => import('./NodeDrift') },
  ],
}
