import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Operations', place: 3, title: 'Events', to: '/events', needs: 'event:read' },
  routes: [
    { path: '/events', page: () => import('./Events') },
  ],
}
