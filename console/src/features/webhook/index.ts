import type { Feature } from '../../app/features'

export const feature: Feature = {
  routes: [{ path: '/access/projects/$projectId/webhooks/$webhookId', page: () => import('./WebhookPage') }],
}
