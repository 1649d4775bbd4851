import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { ActForm } from '../../ui/actform'
import { Note } from '../../ui/basics'
import { CheckField, SelectField } from '../../ui/form'
import { explanationOf, type Draft } from './explained'
import { ExplainedField, Section, useExplainedForm } from './ExplainedForm'
import { acceptsAnew, runsAnything, wrongSite } from './siteFields'

type Props = {
  initial: Draft
  /** Whether the site exists, so that defaults do not fill in what is left empty. */
  exists?: boolean
  does: string
  send: (draft: Draft) => Promise<unknown>
  onClose: () => void
}

/** SiteForm is the form of a new site, and of one that exists. */
export function SiteForm({ initial, exists, does, send, onClose }: Props) {
  const form = useExplainedForm('SiteNewBody', initial, wrongSite(exists ? initial : undefined), exists ? undefined : 'new site')
  const sending = useMutation({ mutationFn: () => send(form.draft), onSuccess: form.forget, onError: (error) => form.refused(error) })
  const moved = exists && form.draft.api_base_url !== initial.api_base_url
  const [sure, setSure] = useState(false)
  const asks = acceptsAnew(form.draft, initial)
  const byDefault = (text: string) => (exists ? undefined : text)
  return (
    <ActForm doing={sending} does={does} leave={exists ? undefined : 'Cancel'} danger={asks} disabled={asks && !sure} check={form.check} onClose={onClose}>
      <Section title="Site" lead="What it is called, and where its machines stand.">
        <ExplainedField form={form} field="name" label="Name" />
        <ExplainedField form={form} field="region_code" label="Region" />
        <ExplainedField form={form} field="max_parallel" label="Machines in work at once" placeholder={byDefault('20')} />
      </Section>
      <Section title="MAAS" lead="The MAAS region that looks after the machines. Its credentials are written afterwards.">
        <ExplainedField form={form} field="api_base_url" label="Address of MAAS" />
        <ExplainedField form={form} field="allowed_networks" label="Allowed networks" placeholder="10.0.0.0/8" />
        <ExplainedField form={form} field="required_scripts" label="Required scripts" placeholder="gpuaas-burn-in@3" />
        <ExplainedField form={form} field="required_capabilities" label="Required capabilities" placeholder="redundant_racks" />
        <ExplainedField form={form} field="ca_certificate" label="CA certificate" rows={3} placeholder="-----BEGIN CERTIFICATE-----" />
      </Section>
      <Section title="Networks" lead="The network that machines boot from, and the names that they resolve.">
        <ExplainedField form={form} field="pxe_iface" label="PXE interface of MAAS" />
        <ExplainedField form={form} field="pxe_vlan_vid" label="PXE VLAN" />
        <ExplainedField form={form} field="node_pxe_iface" label="PXE interface of nodes" />
        <ExplainedField form={form} field="bmc_networks" label="BMC networks" placeholder="10.176.0.0/16" />
        <ExplainedField form={form} field="upstream_dns_servers" label="DNS servers" placeholder={byDefault('1.1.1.1\n8.8.8.8')} />
      </Section>
      <Section title="Deployed machines" lead="How the control plane reaches a machine once it is installed.">
        <ExplainedField form={form} field="deploy_user" label="Deploy user" placeholder={byDefault('hpcadmin')} />
        <ExplainedField form={form} field="deploy_ssh_iface" label="Deploy interface" placeholder={byDefault('eno8303')} />
        <SelectField
          label="Hardware sync over plain HTTP"
          hint={explanationOf('SiteNewBody', 'hw_sync_http').description}
          error={form.wrong('hw_sync_http')}
          value={String(form.draft.hw_sync_http)}
          onChange={(v) => {
            setSure(false)
            form.set('hw_sync_http', v)
          }}
          options={[
            ...(initial.hw_sync_http === '' ? [{ value: '', label: 'undecided: nobody was asked yet' }] : []),
            { value: 'pinned', label: 'pinned: the program must have the digest' },
            { value: 'accepted', label: 'accepted: nothing vouches for it' },
          ]}
        />
      </Section>
      {runsAnything(form.draft) && (
        <Note tone="bad" title="Root on machines runs what plain HTTP brings">
          <p>Whoever can answer in place of MAAS on its network chooses the program that root runs on every machine of this site. Let MAAS speak https, or pin the program.</p>
          {asks && <CheckField label="I accept that for this site" hint="It is part of the audit log, with your name." value={sure} onChange={setSure} />}
        </Note>
      )}
      {moved && (
        <Note tone="warn" title="The MAAS token will have to be written again">
          A token is only sent to the address that it was given for. Until you enter it again, no work is done at this site.
        </Note>
      )}
    </ActForm>
  )
}
