import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Operations', place: 2, title: 'Tasks', to: '/tasks', needs: 'node:read' },
  routes: [
    { path: '/tasks', page: () => import('./Tasks') },
    { path: '/tasks/$taskId', page: () => import('./TaskPage') },
  ],
}
