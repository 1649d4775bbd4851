import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Fleet', place: 1, title: 'Overview', to: '/', needs: 'node:read' },
  routes: [
    { path: '/', page: () => import('./Overview') },
  ],
}
