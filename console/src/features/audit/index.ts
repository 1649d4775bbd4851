import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Operations', place: 4, title: 'Audit log', to: '/audit', needs: 'audit:read' },
  routes: [
    { path: '/audit', page: () => import('./AuditLog') },
  ],
}
