import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Fleet', place: 7, title: 'Agents', to: '/agents', needs: 'agent_release:read' },
  routes: [{ path: '/agents', page: () => import('./Agents') }],
}
