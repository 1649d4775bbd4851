import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState, type ReactNode, type SyntheticEvent } from 'react'
import { api, got } from '../api/client'
import { Button, Code, Loading } from '../ui/basics'
import { TextField } from '../ui/form'
import { ProblemNote } from '../ui/problem'
import { finishOIDC, meQuery, startOIDC, useMethods } from './session'

/** SignIn is shown to whoever has no session, at whatever address: signing in leads on to it. */
export function SignIn() {
  const methods = useMethods()
  const [token, setToken] = useState('')
  const queries = useQueryClient()
  const entering = useMutation({
    mutationFn: () => got(api.POST('/api/v1/auth/session', { body: { token: token.trim() } })),
    onSuccess: () => queries.resetQueries({ queryKey: meQuery.queryKey }),
  })
  const leaving = useMutation({ mutationFn: () => startOIDC(window.location.pathname + window.location.search) })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    entering.mutate()
  }
  const oidc = methods.data?.methods.includes('oidc')
  return (
    <Welcome>
      {oidc && (
        <>
          <Button look="primary" busy={leaving.isPending} onClick={() => leaving.mutate()} className="w-full">
            Sign in with {new URL(methods.data?.issuer ?? window.location.origin).hostname}
          </Button>
          {leaving.error && <ProblemNote error={leaving.error} />}
          <p className="text-center text-xs text-muted">or with a token</p>
        </>
      )}
      {methods.error && <ProblemNote error={methods.error} onRetry={() => void methods.refetch()} />}
      <form onSubmit={submit} className="flex flex-col gap-3">
        <TextField label="API token" type="password" required value={token} onChange={setToken} />
        {entering.error && <ProblemNote error={entering.error} />}
        <Button type="submit" look={oidc ? 'plain' : 'primary'} busy={entering.isPending} disabled={token.trim() === ''}>
          Sign in
        </Button>
      </form>
      <p className="text-xs text-muted">
        The first start of a control plane writes the token of its administrator into its state folder: <Code>cat .gpuaas/admin-token</Code>. The token itself is not kept by this browser: it is exchanged for a session that ends by itself.
      </p>
    </Welcome>
  )
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
