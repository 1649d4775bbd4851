import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Work', place: 3, title: 'Certificates', to: '/certificates', needs: 'certificate:read' },
  routes: [
    { path: '/certificates', page: () => import('./Certificates') },
    { path: '/certificates/$certificateId', page: () => import('./CertificatePage') },
  ],
}
