import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Fleet', place: 3, title: 'Sites', to: '/sites', needs: 'site:read' },
  routes: [
    { path: '/sites', page: () => import('./Sites') },
    { path: '/sites/new', page: () => import('./NewSite') },
    { path: '/sites/$siteId', page: () => import('./SitePage') },
  ],
}
