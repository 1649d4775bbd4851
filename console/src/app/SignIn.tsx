import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState, type ReactNode, type SyntheticEvent } from 'react'
import { api, asRefusal, got } from '../api/client'
import { Button, Code, Loading, Note } from '../ui/basics'
import { Dialog } from '../ui/dialog'
import { TextField } from '../ui/form'
import { ProblemNote } from '../ui/problem'
import { finishOIDC, meQuery, startOIDC, useMethods } from './session'
import { whyEnded } from './standing'

/** SignIn is shown to whoever has no session, at whatever address: signing in leads on to it. */
export function SignIn({ reason }: { reason: unknown }) {
  const methods = useMethods()
  const leaving = useMutation({ mutationFn: () => startOIDC(window.location.pathname + window.location.search) })
  const oidc = methods.data?.methods.includes('oidc')
  return (
    <Welcome>
      <Ended reason={reason} />
      {oidc && (
        <>
          <Button look="primary" busy={leaving.isPending} onClick={() => leaving.mutate()} className="w-full">
            Sign in with {providerOf(methods.data?.issuer)}
          </Button>
          {leaving.error && <ProblemNote error={leaving.error} />}
          <p className="text-center text-xs text-muted">or with a token</p>
        </>
      )}
      {methods.error && <ProblemNote error={methods.error} onRetry={() => void methods.refetch()} />}
      <WithToken plain={oidc} />
      <p className="text-xs text-muted">
        On its first start, the control plane writes its administrator’s token to its state folder: <Code>cat .gpuaas/admin-token</Code>. This browser does not keep the token: it exchanges it for a session that expires.
      </p>
    </Welcome>
  )
}

/** SignInAgain lies over the page of somebody whose session has ended, so that nothing of it is lost. */
export function SignInAgain({ name, reason }: { name: string; reason: unknown }) {
  const methods = useMethods()
  const queries = useQueryClient()
  useEffect(() => {
    // They may have signed in in another tab.
    const look = () => void queries.refetchQueries({ queryKey: meQuery.queryKey }, { cancelRefetch: false })
    window.addEventListener('focus', look)
    return () => window.removeEventListener('focus', look)
  }, [queries])
  const oidc = methods.data?.methods.includes('oidc')
  return (
    <Dialog title="Your session has ended">
      <div className="flex flex-col gap-4">
        <p className="text-sm">
          {whyEnded(asRefusal(reason).problem)} Sign in again as {name} to continue: the page behind this stays as it is, with everything you typed. If someone else signs in, this page is reloaded and what you typed is lost.
        </p>
        {oidc && (
          <div className="flex flex-col gap-1">
            <Button look="primary" onClick={() => window.open('/', '_blank')}>
              Sign in with {providerOf(methods.data?.issuer)}, in another tab
            </Button>
            <p className="text-xs text-muted">Come back to this tab afterwards. Or use a token:</p>
          </div>
        )}
        <WithToken plain={oidc} />
      </div>
    </Dialog>
  )
}

/** Ended says why somebody who was signed in is not any more. Who never was needs no reason. */
function Ended({ reason }: { reason: unknown }) {
  const { problem } = asRefusal(reason)
  if (problem.code === 'token_missing') return null
  return (
    <Note tone="warn" title="Your session has ended">
      {whyEnded(problem)}
    </Note>
  )
}

function WithToken({ plain }: { plain?: boolean }) {
  const [token, setToken] = useState('')
  const queries = useQueryClient()
  const entering = useMutation({
    mutationFn: () => got(api.POST('/api/v1/auth/session', { body: { token: token.trim() } })),
    onSuccess: () => queries.refetchQueries({ queryKey: meQuery.queryKey }),
  })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    entering.mutate()
  }
  return (
    <form onSubmit={submit} className="flex flex-col gap-3">
      {/* eslint-disable-next-line jsx-a11y/no-autofocus -- there is nothing else to do on this page */}
      <TextField label="API token" type="password" required autoFocus={!plain} value={token} onChange={setToken} />
      {entering.error && <ProblemNote error={entering.error} />}
      <Button type="submit" look={plain ? 'plain' : 'primary'} busy={entering.isPending} disabled={token.trim() === ''}>
        Sign in
      </Button>
    </form>
  )
}

function providerOf(issuer: string | undefined): string {
  return new URL(issuer ?? window.location.origin).hostname
}

/** Callback is where the identity provider sends people back to. */
export function Callback() {
  const [error, setError] = useState<unknown>()
  useEffect(() => {
    finishOIDC(new URLSearchParams(window.location.search)).then((to) => window.location.replace(to), setError)
  }, [])
  return <Welcome>{error ? <ProblemNote error={error} onRetry={() => window.location.assign('/')} /> : <Loading what="your session" />}</Welcome>
}

function Welcome({ children }: { children: ReactNode }) {
  return (
    <main className="flex min-h-full items-center justify-center p-4">
      <div className="flex w-full max-w-sm flex-col gap-4 rounded-lg border border-line bg-surface p-6">
        <header>
          <h1 className="text-xl font-semibold">gpuaas</h1>
          <p className="text-sm text-muted">GPU servers as a dependable service</p>
        </header>
        {children}
      </div>
    </main>
  )
}
