import type { Feature } from '../../app/features'

export const feature: Feature = {
  routes: [
    { path: '/operations/catalog', page: () => import('./Catalog') },
    { path: '/operations/catalog/$definitionId', page: () => import('./DefinitionPage') },
  ],
}
