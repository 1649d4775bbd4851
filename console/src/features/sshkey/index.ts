import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Rent', place: 4, title: 'SSH keys', to: '/ssh-keys' },
  routes: [{ path: '/ssh-keys', page: () => import('./Keys') }],
}
