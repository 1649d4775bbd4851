import { useQuery } from '@tanstack/react-query'
import { createContext, use, type ReactNode } from 'react'
import { api, asRefusal, got, type Schemas } from '../api/client'

export type Me = Schemas['IdentityMeView']

/** A permission of the contract, such as node:read. */
export type Permission = Schemas['Permission']

export const meQuery = { queryKey: ['me'], queryFn: () => got(api.GET('/api/v1/me')), staleTime: 60_000 } as const

const MeContext = createContext<Me | undefined>(undefined)

export function MeProvider({ me, children }: { me: Me; children: ReactNode }) {
  return <MeContext value={me}>{children}</MeContext>
}

export function useMe(): Me {
  const me = use(MeContext)
  if (!me) throw new Error('nobody is signed in')
  return me
}

/**
 * useMay says whether whoever is signed in holds a permission on the platform.
 * It decides what is shown; what is allowed, the control plane decides.
 */
export function useMay(): (p: Permission) => boolean {
  const me = useMe()
  return (p) => me.platform_permissions.includes(p)
}

export function useMethods() {
  return useQuery({ queryKey: ['auth-methods'], queryFn: () => got(api.GET('/api/v1/auth/methods')), staleTime: Infinity })
}

// The verifier of a sign-in through the identity provider waits here for the
// person to come back; it is of use to nobody without the code.
const pending = 'gpuaas.sign-in'

export async function startOIDC(returnTo: string) {
  const verifier = base64url(crypto.getRandomValues(new Uint8Array(32)))
  const challenge = base64url(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))))
  const started = await got(
    api.POST('/api/v1/auth/oidc/authorize', { body: { redirect_uri: `${window.location.origin}/sign-in/callback`, code_challenge: challenge } }),
  )
  sessionStorage.setItem(pending, JSON.stringify({ verifier, state: started.state, returnTo }))
  window.location.assign(started.authorization_url)
}

/** finishOIDC turns what the identity provider sent back into a session, and says where the person wanted to go. */
export async function finishOIDC(search: URLSearchParams): Promise<string> {
  const kept = sessionStorage.getItem(pending)
  sessionStorage.removeItem(pending)
  const said = search.get('error_description') ?? search.get('error')
  if (said) throw new Error(`The identity provider refused: ${said}`)
  const { verifier, state, returnTo } = kept ? (JSON.parse(kept) as { verifier: string; state: string; returnTo: string }) : { verifier: '', state: '', returnTo: '/' }
  if (!verifier || state !== search.get('state')) throw new Error('This sign-in was not started in this browser. Start again.')
  await got(api.POST('/api/v1/auth/session', { body: { code: search.get('code') ?? '', state, code_verifier: verifier } }))
  return returnTo
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '')
}

/** signOut ends the session; one that has ended by itself is as good. */
export async function signOut() {
  try {
    await got(api.POST('/api/v1/auth/logout', {}))
  } catch (error) {
    if (asRefusal(error).status !== 401) throw error
  }
  sessionStorage.clear() // what was typed is not for the next one
  window.location.assign('/')
}
