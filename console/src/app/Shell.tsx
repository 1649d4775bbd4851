import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link, Navigate, Outlet, useLocation } from '@tanstack/react-router'
import { lazy, Suspense, useEffect, useRef, useState, type RefObject } from 'react'
import { useConnection } from '../api/live'
import { Button, Loading, Spinner } from '../ui/basics'
import { ProblemNote } from '../ui/problem'
import { Toasts } from '../ui/toast'
import { Elapsed } from '../ui/time'
import { groups } from './features'
import { usePlaces } from './places'
import { signOut, useMay, useMe } from './session'
import { chooseTheme, useTheme, type Theme } from './theme'


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
  const places = usePlaces()
  return (
    <nav aria-label="Main" className="flex flex-col gap-3 px-2 pb-4">
      {groups.map((group) => {
        const entries = places.filter((p) => p.group === group)
        if (entries.length === 0) return null
        return (
          <div key={group}>
            <p className="px-2 pb-1 text-xs font-medium text-muted">{group}</p>
            <ul>
              {entries.map(({ to, title }) => (
                <li key={to}>
                  <Link to={to} onClick={onGo} activeProps={{ className: 'bg-accent-soft text-accent font-medium', 'aria-current': 'page' }} inactiveProps={{ className: 'hover:bg-raised' }} className="block rounded-md px-2 py-1.5 text-sm">
                    {title}
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

const Palette = lazy(() => import('../features/find/Palette'))

/** Jump opens the search, which finds anything from anywhere; so do the key / and ⌘K or Ctrl K. */
function Jump() {
  const [open, setOpen] = useState(false)
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      const at = e.target instanceof HTMLElement ? e.target : document.body
      const command = (e.metaKey || e.ctrlKey) && e.key.toLowerCase() === 'k'
      // A shell has its own Ctrl K, and what a dialog asks is answered first.
      const taken = at.closest('.xterm') ?? document.querySelector('dialog:modal')
      const slash = e.key === '/' && !e.ctrlKey && !e.metaKey && !at.closest('input,textarea,select,[contenteditable]')
      if (taken || !(command || slash)) return
      e.preventDefault()
      setOpen(true)
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
  return (
    <>
      <button type="button" aria-haspopup="dialog" aria-keyshortcuts="/ Control+K Meta+K" onClick={() => setOpen(true)} className="flex w-32 items-center justify-between gap-2 rounded-md border border-line bg-surface px-2.5 py-1 text-sm text-muted hover:bg-raised sm:w-48 lg:w-72">
        Search
        <span aria-hidden className="hidden gap-1 font-mono text-xs sm:flex">
          <kbd className="rounded border border-line px-1">/</kbd>
          <kbd className="rounded border border-line px-1">{commandKey}</kbd>
        </span>
      </button>
      {open && (
        <Suspense fallback={null}>
          <Palette onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  )
}

const commandKey = /Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘K' : 'Ctrl K'

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
