import { focusManager, QueryClient, QueryClientProvider, useQuery, useQueryClient } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode, useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { asRefusal, signedOut } from './api/client'
import { theLive } from './api/live'
import { router } from './app/router'
import { MeProvider, meQuery, type Me } from './app/session'
import { Callback, SignIn, SignInAgain } from './app/SignIn'
import { standing } from './app/standing'
import { startTheme } from './app/theme'
import './index.css'
import { Loading } from './ui/basics'
import { ProblemNote } from './ui/problem'

const askAgainEvery = 5_000

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What was refused is refused again; what was not heard is asked again.
      retry: (failures, error) => failures < 3 && [0, 502, 503, 504].includes(asRefusal(error).status),
    },
    // Somebody waits for the answer: a browser that believes itself offline tries all the same.
    mutations: { networkMode: 'always' },
  },
})

function Console() {
  const me = useQuery({ ...meQuery, refetchInterval: (q) => (standing(q.state) === 'unheard' ? askAgainEvery : false) })
  const client = useQueryClient()
  useEffect(() => {
    // Whoever asks is believed only when the session itself says so, too.
    const doubted = () => void client.refetchQueries({ queryKey: meQuery.queryKey }, { cancelRefetch: false })
    signedOut.addEventListener('signed-out', doubted)
    return () => signedOut.removeEventListener('signed-out', doubted)
  }, [client])
  if (window.location.pathname === '/sign-in/callback') return <Callback />
  if (me.data) return <SignedIn me={me.data} ended={standing(me) === 'ended' ? me.error : undefined} />
  if (standing(me) === 'asking') return <Loading what="your session" />
  if (standing(me) === 'out') return <SignIn reason={me.error} />
  return (
    <div className="p-6">
      <ProblemNote error={me.error} onRetry={() => void me.refetch()} />
    </div>
  )
}

/** SignedIn is the console of one person. When their session ends they sign in again over it, and what they typed stays. */
function SignedIn({ me, ended }: { me: Me; ended: unknown }) {
  const client = useQueryClient()
  const [who] = useState(me.id)
  const another = me.id !== who
  // Members of tenants see the events of their tenants.
  const may = me.permissions.includes('event:read')
  const over = !!ended || another
  useEffect(() => {
    if (another) window.location.reload()
  }, [another])
  useEffect(() => {
    const live = theLive(client)
    if (over) return
    if (may) live.start()
    else live.off()
    return () => live.stop()
  }, [client, over, may])
  useEffect(() => {
    // Without a session nothing is polled.
    focusManager.setFocused(over ? false : undefined)
  }, [over])
  theLive(client)
  if (another) return <Loading what="the page" />
  return (
    <MeProvider me={me}>
      <RouterProvider router={router} />
      {!!ended && <SignInAgain name={me.name || me.id} reason={ended} />}
    </MeProvider>
  )
}

startTheme()
const place = document.getElementById('root')
if (place) {
  createRoot(place).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <Console />
      </QueryClientProvider>
    </StrictMode>,
  )
}
