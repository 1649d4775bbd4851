import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Rent', place: 5, title: 'Billing', to: '/billing' },
  routes: [{ path: '/billing', page: () => import('./Billing') }],
}
