import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Fleet', place: 4, title: 'SKUs', to: '/skus', needs: 'sku:read' },
  routes: [
    { path: '/skus', page: () => import('./Skus') },
  ],
}
