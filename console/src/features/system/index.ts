import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Platform', place: 1, title: 'System health', to: '/system', needs: 'system:read' },
  routes: [
    { path: '/system', page: () => import('./SystemHealth') },
  ],
}
