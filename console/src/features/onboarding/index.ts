import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Work', place: 1, title: 'Onboarding', to: '/onboardings', needs: 'onboarding:read' },
  routes: [
    { path: '/onboardings', page: () => import('./Onboardings') },
    { path: '/onboardings/new', page: () => import('./NewOnboarding') },
    { path: '/onboardings/$onboardingId', page: () => import('./OnboardingPage') },
    { path: '/onboarding-batches/$batchId', page: () => import('./BatchBoard') },
  ],
}
