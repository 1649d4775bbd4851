import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Navigate } from '@tanstack/react-router'
import { Empty, LinkButton, Page } from '../ui/basics'
import { ProblemNote } from '../ui/problem'
import { features } from './registry'
import { Shell } from './Shell'

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <Page title="Not found">
      <Empty title="There is no such page" action={<LinkButton to="/">Go to the overview</LinkButton>} />
    </Page>
  ),
  errorComponent: Broken,
})

function Broken({ error }: { error: unknown }) {
  return (
    <Page title="This page crashed">
      <ProblemNote error={error} onRetry={() => window.location.reload()} />
    </Page>
  )
}

// Signing in has no page of its own: it is done at the address one wants to see.
const signIn = createRoute({ getParentRoute: () => root, path: '/sign-in', component: () => <Navigate to="/" replace /> })

// Pages are loaded when they are first opened, so that the first load stays small.
const routes = features.flatMap((f) =>
  f.routes.map((r) => createRoute({ getParentRoute: () => root, path: r.path, component: lazyRouteComponent(r.page) })),
)

export const router = createRouter({
  routeTree: root.addChildren([...routes, signIn]),
  // A page that breaks leaves the navigation standing.
  defaultErrorComponent: Broken,
  defaultPreload: 'intent',
  // What is after the question mark is text, however much it looks like a number.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const text = new URLSearchParams(search as Record<string, string>).toString()
    return text ? `?${text}` : ''
  },
  scrollRestoration: true,
})
