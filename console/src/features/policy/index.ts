import type { Feature } from '../../app/features'

export const feature: Feature = {
  routes: [{ path: '/operations/policies', page: () => import('./PoliciesPage') }],
}
