import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Fleet', place: 5, title: 'Prices', to: '/prices', needs: 'sku:read' },
  routes: [{ path: '/prices', page: () => import('./Prices') }],
}
