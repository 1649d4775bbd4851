import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Platform', place: 2, title: 'Task signers', to: '/signers', needs: 'signer:read' },
  routes: [
    { path: '/signers', page: () => import('./Signers') },
  ],
}
