import type { Feature } from '../../app/features'

export const feature: Feature = {
  nav: { group: 'Rent', place: 2, title: 'Reservations', to: '/reservations' },
  routes: [
    { path: '/reservations', page: () => import('./Reservations') },
    { path: '/reservations/$reservationId', page: () => import('./ReservationPage') },
  ],
}
