import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Fleet', title: 'Overview', to: '/', needs: 'node:read' },
  routes: [
    { path: '/', page: () => import('./Overview') },
  ],
}
