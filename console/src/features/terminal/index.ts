import type { Feature } from '../../app/features'

export const feature: Feature = {
  routes: [{ path: '/nodes/$nodeId/terminal', page: () => import('./NodeTerminal') }],
}
