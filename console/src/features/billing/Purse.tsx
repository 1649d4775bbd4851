import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useMe } from '../../app/session'
import { Button, Card, Facts, Loading, Note, State } from '../../ui/basics'
import { money } from '../../ui/money'
import { ProblemNote } from '../../ui/problem'
import { exact, When } from '../../ui/time'
import { mayIn } from '../access/roles'
import { Credit, SetAccount } from './Account'
import { payWords, runwayWords, standing, type Balance } from './balance'
import { discountWords } from './entries'
import { FreeProjects } from './FreeProjects'
import { accountQuery, balanceQuery } from './queries'
import { SetLimits } from './SetLimits'

type Doing = 'account' | 'credit' | 'free' | 'limits'

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
      {balance.data && <Standing balance={balance.data} />}
      {a && (
        <Card
          title={<span className="inline-flex flex-wrap items-center gap-2">Balance {balance.data && <State of="balance" is={balance.data.status} />}</span>}
          actions={
            manages && (
              <>
                <Button onClick={() => setDoing('credit')}>Add money …</Button>
                {balance.data && <Button onClick={() => setDoing('limits')}>Limits …</Button>}
                <Button onClick={() => setDoing('account')}>Discount …</Button>
                <Button onClick={() => setDoing('free')}>Free projects …</Button>
              </>
            )
          }
        >
          {balance.error && <ProblemNote error={balance.error} onRetry={() => void balance.refetch()} />}
          <div className="grid gap-4 md:grid-cols-2">
            {balance.data && <Left balance={balance.data} />}
            <Facts
              of={[
                ...(balance.data ? [['Pays', payWords(balance.data)] as [string, string]] : []),
                ['Currency', `${a.currency} (cannot be changed)`],
                ['Discount', discountWords(a.paid_share)],
                ['Prices', a.pricing === 'follows_list' ? 'follow the list' : 'fixed: an allocation keeps the price it started with'],
              ]}
            />
          </div>
          {balance.data?.made_at && <p className="mt-3 text-xs text-muted">As of {exact(balance.data.made_at)}, with what is not booked yet.</p>}
        </Card>
      )}
      {doing === 'account' && <SetAccount orgId={orgId} account={a ?? undefined} onClose={stop} />}
      {doing === 'credit' && a && <Credit orgId={orgId} currency={a.currency} onClose={stop} />}
      {doing === 'limits' && balance.data && <SetLimits orgId={orgId} balance={balance.data} onClose={stop} />}
      {doing === 'free' && <FreeProjects orgId={orgId} onClose={stop} />}
    </>
  )
}

/** Standing says what a balance that comes to its end means, and what to do. */
function Standing({ balance: b }: { balance: Balance }) {
  const said = standing(b)
  if (!said) return null
  return (
    <Note tone={said.tone} title={said.title}>
      {said.text} {b.depletes_at && b.status !== 'depleted' && <>At the current rate it runs out <When at={b.depletes_at} />.</>} {b.releases_at && <>Releases begin <When at={b.releases_at} />.</>}
    </Note>
  )
}

/** Left is what a tenant has left, and how long that lasts. */
function Left({ balance: b }: { balance: Balance }) {
  const as = (minor: number) => money(minor, b.currency)
  return (
    <Facts
      of={[
        ['Booked', <strong key="b" className={b.balance_minor < 0 ? 'text-bad' : ''}>{as(b.balance_minor)}{b.balance_minor < 0 && ' (owed)'}</strong>],
        ['Used but not booked yet', as(b.accrued_minor)],
        ...(b.held_minor ? [['Set aside for what begins', as(b.held_minor)] as [string, string]] : []),
        ...(b.available_minor === undefined ? [] : [['Available', as(b.available_minor)] as [string, string]]),
        ['An hour of what runs now', as(b.burn_minor_per_hour)],
        ['Lasts for', runwayWords(b)],
      ]}
    />
  )
}
