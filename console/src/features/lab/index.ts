import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Fleet', place: 6, title: 'Virtual lab', to: '/virtual-lab', needs: 'site:manage', lab: true },
  routes: [
    { path: '/virtual-lab', page: () => import('./LabPage') },
  ],
}
