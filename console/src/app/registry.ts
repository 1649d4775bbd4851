import { groups, type Feature } from './features'

const folders = import.meta.glob<{ feature: Feature }>('../features/*/index.ts', { eager: true })

const rank = ({ nav }: Feature) => (nav ? groups.indexOf(nav.group) * 100 + nav.place : Infinity)

/** features is the console: what the index.ts of every folder of features says, in the order of the navigation. */
export const features: Feature[] = Object.values(folders)
  .map((f) => f.feature)
  .sort((a, b) => rank(a) - rank(b))

/** titleAt is what the navigation calls the page at an address. */
export const titleAt = (to: string) => features.find((f) => f.nav?.to === to)?.nav?.title ?? to
