import { QueryClient, QueryClientProvider, useQuery, useQueryClient } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode, useEffect } from 'react'
import { createRoot } from 'react-dom/client'
import { asRefusal, signedOut } from './api/client'
import { theLive } from './api/live'
import { router } from './app/router'
import { MeProvider, meQuery, type Me } from './app/session'
import { Callback, SignIn } from './app/SignIn'
import { startTheme } from './app/theme'
import './index.css'
import { Loading } from './ui/basics'
import { ProblemNote } from './ui/problem'

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What was refused is refused again; what was not heard is asked again.
      retry: (failures, error) => failures < 3 && [0, 502, 503, 504].includes(asRefusal(error).status),
    },
  },
})

function Console() {
  const me = useQuery(meQuery)
  const client = useQueryClient()
  useEffect(() => {
    const ended = () => {
      client.removeQueries({ predicate: (q) => q.queryKey[0] !== 'me' && q.queryKey[0] !== 'auth-methods' })
      void client.resetQueries({ queryKey: meQuery.queryKey })
    }
    signedOut.addEventListener('signed-out', ended)
    return () => signedOut.removeEventListener('signed-out', ended)
  }, [client])
  if (window.location.pathname === '/sign-in/callback') return <Callback />
  if (me.isPending) return <Loading what="your session" />
  if (me.error && asRefusal(me.error).status === 401) return <SignIn />
  if (me.error) {
    return (
      <div className="p-6">
        <ProblemNote error={me.error} onRetry={() => void me.refetch()} />
      </div>
    )
  }
  return <SignedIn me={me.data} />
}

function SignedIn({ me }: { me: Me }) {
  const client = useQueryClient()
  useEffect(() => {
    const live = theLive(client)
    live.start()
    return () => live.stop()
  }, [client])
  theLive(client)
  return (
    <MeProvider me={me}>
      <RouterProvider router={router} />
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
