import { Link, type LinkProps } from '@tanstack/react-router'
import { useEffect, useRef, type ButtonHTMLAttributes, type MouseEvent, type ReactNode } from 'react'
import { toneOf, toneSoft, toneText, words, type Noun, type Tone } from './tone'

type Look = 'primary' | 'plain' | 'danger' | 'quiet'

const looks: Record<Look, string> = {
  primary: 'bg-accent text-accent-ink border-accent hover:brightness-110',
  plain: 'bg-surface text-ink border-line hover:bg-raised',
  danger: 'bg-bad text-bad-ink border-bad hover:brightness-110',
  quiet: 'bg-transparent text-ink border-transparent hover:bg-raised',
}

const shape = 'inline-flex items-center justify-center gap-1.5 rounded-md border px-3 py-1.5 text-sm font-medium whitespace-nowrap disabled:opacity-60 disabled:cursor-not-allowed'

export function Button({ look = 'plain', busy, children, className = '', onClick, ...rest }: ButtonHTMLAttributes<HTMLButtonElement> & { look?: Look; busy?: boolean }) {
  const once = (e: MouseEvent<HTMLButtonElement>) => {
    // The second click of a double click comes before anything is shown as busy: it asks for nothing new.
    if (e.detail > 1 && (look === 'primary' || look === 'danger' || rest.type === 'submit')) e.preventDefault()
    else onClick?.(e)
  }
  return (
    <button type="button" {...rest} onClick={once} disabled={rest.disabled || busy} aria-busy={busy || undefined} className={`${shape} ${looks[look]} ${className}`}>
      {busy && <Spinner />}
      {children}
    </button>
  )
}

/** LinkButton goes somewhere, and looks like what one does next. */
export function LinkButton({ look = 'plain', children, ...rest }: LinkProps & { look?: Look; children: ReactNode }) {
  return (
    <Link {...rest} className={`${shape} ${looks[look]}`}>
      {children}
    </Link>
  )
}

export function Spinner() {
  return <span aria-hidden className="inline-block size-3.5 animate-spin rounded-full border-2 border-current border-r-transparent" />
}

export function Badge({ tone = 'idle', children, title }: { tone?: Tone; children: ReactNode; title?: string }) {
  return (
    <span title={title} className={`inline-flex items-center gap-1 rounded px-1.5 py-0.5 text-xs font-medium whitespace-nowrap ${toneSoft[tone]}`}>
      {children}
    </span>
  )
}

/** State shows the state of a noun: always the word, never the colour alone. */
export function State({ of, is }: { of: Noun; is: string }) {
  return <Badge tone={toneOf(of, is)}>{words(is)}</Badge>
}

export function Card({ title, actions, children, className = '' }: { title?: ReactNode; actions?: ReactNode; children: ReactNode; className?: string }) {
  return (
    <section className={`rounded-lg border border-line bg-surface ${className}`}>
      {(title || actions) && (
        <header className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-2.5">
          <h2 className="text-sm font-semibold">{title}</h2>
          {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
        </header>
      )}
      <div className="p-4">{children}</div>
    </section>
  )
}

/** Stat is one number that matters; with `to` it leads to what it counts. */
export function Stat({ label, value, tone, hint, onSelect, selected }: { label: string; value: ReactNode; tone?: Tone; hint?: string; onSelect?: () => void; selected?: boolean }) {
  const body = (
    <>
      <span className={`block text-2xl font-semibold tabular-nums ${tone ? toneText[tone] : ''}`}>{value}</span>
      <span className="block text-xs text-muted">{label}</span>
    </>
  )
  const box = 'min-w-24 rounded-lg border bg-surface px-3 py-2 text-left'
  if (!onSelect) {
    return (
      <div className={`${box} border-line`} title={hint}>
        {body}
      </div>
    )
  }
  return (
    <button type="button" aria-pressed={selected} onClick={onSelect} title={hint} className={`${box} hover:bg-raised ${selected ? 'border-accent ring-1 ring-accent' : 'border-line'}`}>
      {body}
    </button>
  )
}

export function Page({ title, lead, actions, back, children }: { title: ReactNode; lead?: ReactNode; actions?: ReactNode; back?: ReactNode; children: ReactNode }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    // Tabs and the history of the browser tell pages apart by this.
    const said = heading.current?.textContent.trim()
    document.title = said ? `${said} · gpuaas` : 'gpuaas'
  })
  return (
    <div className="mx-auto flex max-w-[110rem] flex-col gap-4 p-4 md:p-6">
      <header className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          {back && <div className="mb-1 text-sm text-muted">{back}</div>}
          <h1 ref={heading} className="flex flex-wrap items-center gap-2 text-xl font-semibold break-words">{title}</h1>
          {lead && <p className="mt-0.5 max-w-3xl text-sm text-muted">{lead}</p>}
        </div>
        {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

/** Empty says why there is nothing, and what to do next. */
export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="flex flex-col items-center gap-2 rounded-lg border border-dashed border-line bg-surface px-6 py-10 text-center">
      <h2 className="text-base font-semibold">{title}</h2>
      {children && <div className="max-w-xl text-sm text-muted">{children}</div>}
      {action && <div className="mt-2 flex flex-wrap justify-center gap-2">{action}</div>}
    </div>
  )
}

export function Note({ tone = 'info', title, children, actions }: { tone?: Tone; title?: ReactNode; children?: ReactNode; actions?: ReactNode }) {
  return (
    <div role={tone === 'bad' ? 'alert' : 'status'} className={`flex flex-wrap items-start justify-between gap-3 rounded-md border border-current/25 px-3 py-2 text-sm ${toneSoft[tone]}`}>
      <div className="min-w-0">
        {title && <p className="font-semibold">{title}</p>}
        {children && <div className="text-ink">{children}</div>}
      </div>
      {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
    </div>
  )
}

/** Facts is a list of names and values. What is not known is said so. */
export function Facts({ of }: { of: [name: string, value: ReactNode][] }) {
  return (
    <dl className="grid grid-cols-[fit-content(45%)_minmax(0,1fr)] gap-x-6 gap-y-1.5 text-sm">
      {of.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted [overflow-wrap:anywhere]">{name}</dt>
          <dd className="min-w-0 break-words">{value === '' || value === undefined || value === null ? <span className="text-muted">–</span> : value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** Code is text for machines: an id, a command, a document. */
export function Code({ children, block }: { children: ReactNode; block?: boolean }) {
  if (block) {
    return (
      // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls has to be reachable by keyboard
      <pre tabIndex={0} className="max-h-96 overflow-auto rounded-md border border-line bg-raised p-3 font-mono text-xs whitespace-pre-wrap">
        {children}
      </pre>
    )
  }
  return <code className="rounded bg-raised px-1 py-0.5 font-mono text-xs break-all">{children}</code>
}

export function Loading({ what }: { what: string }) {
  return (
    <div role="status" className="flex items-center gap-2 p-6 text-sm text-muted">
      <Spinner /> Loading {what} …
    </div>
  )
}

const linkLook = 'text-accent underline decoration-current/40 underline-offset-2 hover:decoration-current'

export function TextLink({ children, ...rest }: LinkProps & { children: ReactNode }) {
  return (
    <Link {...rest} className={linkLook}>
      {children}
    </Link>
  )
}
