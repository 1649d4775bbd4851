import { useQuery } from '@tanstack/react-query'
import { useEffect, useState, type Dispatch, type SetStateAction } from 'react'
import { CheckField, SelectField, TextArea } from '../../ui/form'
import { profilesQuery } from '../site/siteQueries'
import { takesEnd, takesErase, takesInstall, type Choices, type Mode } from './modes'

const pause = 700

type Props = { mode: Mode; choices: Choices; onChoices: Dispatch<SetStateAction<Choices>>; /** Whose profiles can be chosen; absent: of no site, or of several. */ siteId?: string; /** It is about many nodes, each of which has an agent of its own. */ many?: boolean }

/** More is what else a mode leaves open: how the machine is installed, and what to do about a tenant or an agent that is gone. */
export function More({ mode, choices, onChoices, siteId, many }: Props) {
  const profiles = useQuery({ ...profilesQuery(siteId ?? ''), enabled: !!siteId && takesInstall(mode) })
  const node = many ? 'each node' : 'the node'
  if (!takesInstall(mode) && !takesEnd(mode)) return null
  return (
    <details className="rounded-md border border-line px-3 py-2">
      <summary className="cursor-pointer text-sm font-medium">More choices</summary>
      <div className="mt-3 flex flex-col gap-3">
        {takesInstall(mode) && profiles.data && (
          <SelectField
            label="Install with profile"
            value={choices.profile ?? ''}
            onChange={(profile) => onChoices({ ...choices, profile })}
            options={[{ value: '', label: `the current profile of ${node}` }, ...profiles.data.map((p) => ({ value: p.profile_id, label: p.name }))]}
            hint={`Afterwards, ${node} belongs to that profile.`}
          />
        )}
        {takesInstall(mode) && <CheckField label="Keep out of service" value={!!choices.keepOut} onChange={(keepOut) => onChoices({ ...choices, keepOut })} hint={`When it is ready, ${node} is quarantined until an operator returns it to service.`} />}
        {takesInstall(mode) && <CheckField label="Accept only if the hardware matches the SKU" value={!!choices.match} onChange={(match) => onChoices({ ...choices, match })} hint="If GPUs, memory, disks or interfaces differ, the turnover is parked and says what differs." />}
        {takesEnd(mode) && (
          <SelectField
            label={`If a tenant is renting ${node}`}
            value={choices.tenant ?? ''}
            onChange={(tenant) => onChoices({ ...choices, tenant: tenant === 'end' || tenant === 'announced' ? tenant : undefined })}
            options={[
              { value: '', label: 'do not start' },
              { value: 'announced', label: 'end the rental if announced maintenance permits it' },
              { value: 'end', label: 'end the rental immediately' },
            ]}
            hint={choices.tenant ? "The tenant's work is destroyed." : 'The tenant keeps the node, and nothing starts.'}
          />
        )}
        {takesErase(mode) && !many && <WithoutAgent choices={choices} onChoices={onChoices} />}
      </div>
    </details>
  )
}

function WithoutAgent({ choices, onChoices }: Pick<Props, 'choices' | 'onChoices'>) {
  const [risk, setRisk] = useState(choices.risk ?? '')
  // A plan is made anew when somebody stops typing, not at every key.
  useEffect(() => {
    const timer = setTimeout(() => onChoices((before) => (before.risk === risk.trim() ? before : { ...before, risk: risk.trim() })), pause)
    return () => clearTimeout(timer)
  }, [risk, onChoices])
  return (
    <>
      <CheckField label="Continue without the agent" value={!!choices.withoutAgent} onChange={(withoutAgent) => onChoices({ ...choices, withoutAgent })} hint="For a node whose agent is gone: stages that only the agent can carry out are skipped." />
      {choices.withoutAgent && (
        <TextArea label="What may be left behind" required rows={2} most={2000} value={risk} onChange={setRisk} hint="The risk that you accept. The certificate states it." error={risk.trim() === '' ? 'Say what may be left behind; otherwise the turnover waits for the agent.' : undefined} />
      )}
    </>
  )
}
