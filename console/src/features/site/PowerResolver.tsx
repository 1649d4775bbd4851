import { useQuery } from '@tanstack/react-query'
import { useState, type SyntheticEvent } from 'react'
import { api, got } from '../../api/client'
import { Button, Card, Code, Note } from '../../ui/basics'
import { TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { hostnameRule, ipRule, macRule } from './rules'
import type { Site } from './siteQueries'

/** PowerResolver tells which BMC credentials a machine gets, and why. */
export function PowerResolver({ site }: { site: Site }) {
  const [hostname, setHostname] = useState('')
  const [ipmi, setIpmi] = useState('')
  const [mac, setMac] = useState('')
  const [asked, setAsked] = useState<{ hostname?: string; ipmi_ip?: string; pxe_mac?: string }>()
  // Asked again whenever something of the site changes: the answer may be another.
  const answer = useQuery({
    queryKey: ['sites', site.site_id, 'power-choice', asked],
    queryFn: () => got(api.GET('/api/v1/admin/maas-sites/{site_id}/power-credentials/resolve', { params: { path: { site_id: site.site_id }, query: asked } })),
    enabled: !!asked,
  })
  const wrong = { hostname: hostname.trim() ? hostnameRule(hostname.trim()) : undefined, ipmi: ipmi.trim() ? ipRule(ipmi.trim()) : undefined, mac: mac.trim() ? macRule(mac.trim()) : undefined }
  const askable = !!(hostname.trim() || ipmi.trim() || mac.trim()) && !wrong.hostname && !wrong.ipmi && !wrong.mac
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    if (askable) setAsked({ hostname: hostname.trim() || undefined, ipmi_ip: ipmi.trim() || undefined, pxe_mac: mac.trim() || undefined })
  }
  const change = (set: (v: string) => void) => (v: string) => {
    set(v)
    setAsked(undefined) // the answer was about another machine
  }
  return (
    <Card title="Which credentials would be used for …">
      <form noValidate onSubmit={submit} className="flex flex-col gap-3">
        <div className="grid items-start gap-3 sm:grid-cols-3">
          <TextField label="Host name" value={hostname} onChange={change(setHostname)} placeholder="c07u31" error={wrong.hostname} />
          <TextField label="BMC address" value={ipmi} onChange={change(setIpmi)} placeholder="10.0.0.7" error={wrong.ipmi} />
          <TextField label="PXE MAC" value={mac} onChange={change(setMac)} placeholder="52:54:00:12:34:56" error={wrong.mac} />
        </div>
        <div>
          <Button type="submit" busy={answer.isFetching} disabled={!askable}>
            Tell me
          </Button>
        </div>
        {answer.error && <ProblemNote error={answer.error} />}
        {answer.data && !answer.error && (
          <Note tone="info" title={answer.data.source === 'override' ? 'The credentials of an override' : 'The default credentials of the site'}>
            <p>Why: {answer.data.reason}.</p>
            <p>
              Fingerprint <Code>{answer.data.fingerprint}</Code>
            </p>
          </Note>
        )}
      </form>
    </Card>
  )
}
