import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useMe } from '../../app/session'
import { Button, Card, Facts, Loading, Note } from '../../ui/basics'
import { money } from '../../ui/money'
import { ProblemNote } from '../../ui/problem'
import { mayIn } from '../access/roles'
import { Credit, SetAccount } from './Account'
import { FreeProjects } from './FreeProjects'
import { discountWords } from './entries'
import { accountQuery, balanceQuery } from './queries'

type Doing = 'account' | 'credit' | 'free'

/** Purse is what a tenant has left, and how it pays. */
export function Purse({ orgId }: { orgId: string }) {
  const me = useMe()
  const [doing, setDoing] = useState<Doing>()
  const account = useQuery(accountQuery(orgId))
  const a = account.data
  const balance = useQuery({ ...balanceQuery(orgId), enabled: !!a })
  const manages = mayIn(me, 'billing:manage', { orgId })
  const stop = () => setDoing(undefined)
  if (account.isPending || (a && balance.isPending)) return <Loading what="the balance" />
  if (a === undefined) return <ProblemNote error={account.error} onRetry={() => void account.refetch()} />
  return (
    <>
      {a === null && (
        <Note title="The tenant has no billing account" actions={manages && <Button onClick={() => setDoing('account')}>Open an account …</Button>}>
          What it rents is free of charge, unless the platform asks for accounts; then it can rent nothing. Administrators of the platform open accounts.
        </Note>
      )}
      {a && (
        <Card
          title="Balance"
          actions={
            manages && (
              <>
                <Button onClick={() => setDoing('credit')}>Add money …</Button>
                <Button onClick={() => setDoing('account')}>Discount …</Button>
                <Button onClick={() => setDoing('free')}>Free projects …</Button>
              </>
            )
          }
        >
          {balance.error && <ProblemNote error={balance.error} onRetry={() => void balance.refetch()} />}
          <div className="grid gap-4 md:grid-cols-2">
            <Facts
              of={[
                ['Left', balance.data && <strong className={balance.data.balance_minor < 0 ? 'text-bad' : ''}>{money(balance.data.balance_minor, balance.data.currency)}{balance.data.balance_minor < 0 && ', which is owed'}</strong>],
                ['Currency', `${a.currency}, for ever`],
                ['Discount', discountWords(a.paid_share)],
              ]}
            />
            <p className="text-xs text-muted">Use is booked every hour and when it ends; what was used since is not taken off yet. Discounts hold for what is rented from then on: each allocation keeps what was agreed when it was made.</p>
          </div>
        </Card>
      )}
      {doing === 'account' && <SetAccount orgId={orgId} account={a ?? undefined} onClose={stop} />}
      {doing === 'credit' && a && <Credit orgId={orgId} currency={a.currency} onClose={stop} />}
      {doing === 'free' && <FreeProjects orgId={orgId} onClose={stop} />}
    </>
  )
}
