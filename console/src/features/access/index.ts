import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Platform', place: 3, title: 'Access', to: '/access' },
  routes: [
    { path: '/access', page: () => import('./Access') },
    { path: '/access/tenants/$orgId', page: () => import('./TenantPage') },
    { path: '/access/projects/$projectId', page: () => import('./ProjectPage') },
  ],
}
