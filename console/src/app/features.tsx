import type { ComponentType } from 'react'
import type { Permission } from './session'

/** A page: a feature folder lists its own, and the console is made of those lists. */
export type Route = {
  /** Path as the router reads it, such as /nodes/$nodeId. */
  path: string
  page: () => Promise<{ default: ComponentType }>
}

export type Feature = {
  /** Entry in the navigation; without it the pages are reached from others. */
  nav?: { group: 'Fleet' | 'Work' | 'Operations' | 'Platform'; title: string; to: string; /** What it takes to see it; without it everybody does who is signed in. */ needs?: Permission; /** Shown only when there is a lab. */ lab?: boolean }
  routes: Route[]
}
