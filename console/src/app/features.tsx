import type { ComponentType } from 'react'
import type { Permission } from './session'

/** A page: a feature folder lists its own, and the console is made of those lists. */
export type Route = {
  /** Path as the router reads it, such as /nodes/$nodeId. */
  path: string
  page: () => Promise<{ default: ComponentType }>
}

/** The groups of the navigation, in their order. */
export const groups = ['Rent', 'Fleet', 'Work', 'Operations', 'Platform'] as const

export type Feature = {
  /** Entry in the navigation; without it the pages are reached from others. */
  nav?: { group: (typeof groups)[number]; /** Where in its group, from the top. */ place: number; title: string; to: string; /** What it takes to see it; without it everybody does who is signed in. */ needs?: Permission; /** Shown only when there is a lab. */ lab?: boolean }
  routes: Route[]
}
