import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Rent', place: 1, title: 'Allocations', to: '/allocations' },
  routes: [
    { path: '/allocations', page: () => import('./Allocations') },
    { path: '/allocations/$allocationId', page: () => import('./AllocationPage') },
    { path: '/allocations/$allocationId/receipts/$certificateId', page: () => import('./ReceiptPage') },
  ],
}
