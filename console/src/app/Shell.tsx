import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Navigate, Outlet, useLocation, useNavigate } from '@tanstack/react-router'
import { Suspense, useEffect, useRef, useState, type RefObject } from 'react'
import { useConnection } from '../api/live'
import { Button, Loading, Spinner } from '../ui/basics'
import { ProblemNote } from '../ui/problem'
import { Toasts } from '../ui/toast'
import { Elapsed } from '../ui/time'
import { groups, type Feature } from './features'
import { features } from './registry'
import { signOut, useMay, useMe } from './session'
import { chooseTheme, useTheme, type Theme } from './theme'
import { labQuery } from '../features/lab/lab'


/** Shell is what surrounds every page: where one can go, who one is, and whether what is shown is fresh. */
export function Shell() {
  const [open, setOpen] = useState(false)
  const content = useRef<HTMLElement>(null)
  useNewPage(content)
  return (
    <div className="flex min-h-full flex-col md:h-full md:flex-row">
      <a href="#content" className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded focus:bg-surface focus:p-2">
        Skip to content
      </a>
      <aside className="flex shrink-0 flex-col border-b border-line bg-surface md:w-52 md:overflow-y-auto md:border-r md:border-b-0">
        <div className="flex items-center justify-between px-4 py-3">
          <Link to="/" className="text-lg font-semibold tracking-tight">
            gpuaas
          </Link>
          <Button look="quiet" className="md:hidden" aria-expanded={open} aria-controls="navigation" onClick={() => setOpen(!open)}>
            Menu
          </Button>
        </div>
        <div id="navigation" className={`${open ? 'block' : 'hidden'} md:block`}>
          <Navigation onGo={() => setOpen(false)} />
        </div>
      </aside>
      <div className="flex min-w-0 flex-1 flex-col md:h-full">
        <TopBar />
        <LostBanner />
        <main ref={content} id="content" tabIndex={-1} className="relative min-h-0 flex-1 overflow-auto outline-none">
          <Suspense fallback={<Loading what="the page" />}>
            <Landing />
          </Suspense>
        </main>
      </div>
      <Toasts />
    </div>
  )
}

// Whoever goes to another page goes on there, not at the link that led to it.
function useNewPage(content: RefObject<HTMLElement | null>) {
  const path = useLocation({ select: (l) => l.pathname })
  const before = useRef(path)
  useEffect(() => {
    if (before.current === path) return
    before.current = path
    if (!document.activeElement?.closest('main,dialog')) content.current?.focus({ preventScroll: true })
  }, [path, content])
}

/** Landing is the page that was asked for. Whoever may not see the fleet has no use for its overview and begins with what they rent. */
function Landing() {
  const may = useMay()
  const atStart = useLocation({ select: (l) => l.pathname === '/' })
  return atStart && !may('node:read') ? <Navigate to="/allocations" replace /> : <Outlet />
}

function Navigation({ onGo }: { onGo: () => void }) {
  const may = useMay()
  const lab = useQuery({ ...labQuery, enabled: may('site:manage') })
  const shown = (f: Feature) => f.nav && (!f.nav.needs || may(f.nav.needs)) && (!f.nav.lab || !!lab.data)
  return (
    <nav aria-label="Main" className="flex flex-col gap-3 px-2 pb-4">
      {groups.map((group) => {
        const entries = features.filter((f) => f.nav?.group === group && shown(f))
        if (entries.length === 0) return null
        return (
          <div key={group}>
            <p className="px-2 pb-1 text-xs font-medium text-muted">{group}</p>
            <ul>
              {entries.map(({ nav }) => (
                <li key={nav?.to}>
                  <Link to={nav?.to} onClick={onGo} activeProps={{ className: 'bg-accent-soft text-accent font-medium', 'aria-current': 'page' }} inactiveProps={{ className: 'hover:bg-raised' }} className="block rounded-md px-2 py-1.5 text-sm">
                    {nav?.title}
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        )
      })}
    </nav>
  )
}

function TopBar() {
  const me = useMe()
  const theme = useTheme()
  const leaving = useMutation({ mutationFn: signOut })
  return (
    <header className="flex flex-wrap items-center gap-3 border-b border-line bg-surface px-4 py-2">
      <Jump />
      <div className="ml-auto flex items-center gap-3">
        <Freshness />
        <label className="sr-only" htmlFor="theme">
          Theme
        </label>
        <select id="theme" value={theme} onChange={(e) => chooseTheme(e.target.value as Theme)} className="rounded-md border border-line bg-surface px-1.5 py-1 text-xs">
          <option value="system">System</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
        <span className="hidden text-sm sm:block" title={me.id}>
          {me.name || me.id} <span className="text-xs text-muted">{me.platform_role === 'none' ? '' : me.platform_role.replaceAll('_', ' ')}</span>
        </span>
        <Button busy={leaving.isPending} onClick={() => leaving.mutate()}>
          Sign out
        </Button>
      </div>
      {leaving.error && (
        <div className="w-full">
          <p className="mb-1 text-sm font-medium">You are still signed in.</p>
          <ProblemNote error={leaving.error} onRetry={() => leaving.mutate()} />
        </div>
      )}
    </header>
  )
}

/** Jump finds a node from anywhere; the key / leads to it. */
function Jump() {
  const input = useRef<HTMLInputElement>(null)
  const navigate = useNavigate()
  const may = useMay()
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      const typing = e.target instanceof HTMLElement && e.target.closest('input,textarea,select,dialog,[contenteditable]')
      if (e.key !== '/' || typing || e.ctrlKey || e.metaKey) return
      e.preventDefault()
      input.current?.focus()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
  if (!may('node:read')) return null
  return (
    <form
      role="search"
      onSubmit={(e) => {
        e.preventDefault()
        void navigate({ to: '/nodes', search: { q: input.current?.value ?? '' } })
      }}
    >
      <label htmlFor="jump" className="sr-only">
        Find a node
      </label>
      <input id="jump" ref={input} type="search" placeholder="Find a node  ( / )" autoComplete="off" className="w-48 rounded-md border border-line bg-surface px-2.5 py-1 text-sm placeholder:text-muted lg:w-72" />
    </form>
  )
}

function Freshness() {
  const c = useConnection()
  if (c.state === 'live') {
    return (
      <span className="inline-flex items-center gap-1.5 text-xs text-ok" title="Changes appear automatically.">
        <span aria-hidden className="size-2 rounded-full bg-ok" /> Live
      </span>
    )
  }
  if (c.state === 'off') return <NotLive />
  return (
    <span role="status" className="inline-flex items-center gap-1.5 text-xs text-warn">
      <Spinner /> {c.state === 'lost' ? 'Reconnecting' : 'Connecting'}
    </span>
  )
}

/** NotLive is for those who may not follow events: that is no fault, and nothing is tried. */
function NotLive() {
  const queries = useQueryClient()
  return (
    <span className="inline-flex items-center gap-1.5 text-xs text-muted" title="Live updates need the permission event:read.">
      This page does not update automatically.
      <button type="button" onClick={() => void queries.invalidateQueries()} className="text-accent underline">
        Refresh
      </button>
    </span>
  )
}

function LostBanner() {
  const c = useConnection()
  if (c.state !== 'lost') return null
  return (
    <div role="alert" className="border-b border-line bg-warn-soft px-4 py-2 text-sm text-warn">
      <strong>What you see may be out of date.</strong> The control plane has not answered for <Elapsed from={new Date(c.since).toISOString()} />. This page keeps trying, and reloads everything as soon as it answers.
    </div>
  )
}
