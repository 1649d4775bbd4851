import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Work', place: 4, title: 'Operations', to: '/operations' },
  routes: [
    { path: '/operations', page: () => import('./Runs') },
    { path: '/operations/new', page: () => import('./NewRun') },
    { path: '/operations/$operationId', page: () => import('./RunPage') },
  ],
}
