import { groups, type Feature } from './features'

const folders = import.meta.glob<{ feature: Feature }>('../features/*/index.ts', { eager: true })

const rank = ({ nav }: Feature) => (nav ? groups.indexOf(nav.group) * 100 + nav.place : Infinity)

/** features is the console: what the index.ts of every folder of features says, in the order of the navigation. */
export const features: Feature[] = Object.values(folders)
  .map((f) => f.feature)
  .sort((a, b) => rank(a) - rank(b))
