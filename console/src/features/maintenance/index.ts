import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Rent', place: 3, title: 'Maintenance', to: '/maintenances' },
  routes: [{ path: '/maintenances', page: () => import('./Maintenances') }],
}
