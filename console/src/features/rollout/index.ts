import type { Feature } from '../../app/features'

export const feature: Feature = {
  routes: [
    { path: '/agents/rollouts/new', page: () => import('./NewRollout') },
    { path: '/agents/rollouts/$rolloutId', page: () => import('./RolloutPage') },
  ],
}
