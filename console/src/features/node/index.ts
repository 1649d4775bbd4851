import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Fleet', place: 2, title: 'Nodes', to: '/nodes', needs: 'node:read' },
  routes: [
    { path: '/nodes', page: () => import('./Nodes') },
    { path: '/nodes/$nodeId', page: () => import('./NodePage') },
  ],
}
