/** Policy is one knob of a profile; what it does, the contract explains. */
export type Policy = { field: string; label: string }

export type PolicyGroup = { title: string; lead: string; policies: Policy[] }

const policy = (field: string, label: string): Policy => ({ field, label })

/** policyGroups is every policy of a profile, in the order in which a machine meets them. */
export const policyGroups: PolicyGroup[] = [
  {
    title: 'Identification',
    lead: 'How a machine that was asked for is found among those that MAAS shows.',
    policies: [policy('auto_claim_single_new_machine', 'Claim the only New machine')],
  },
  {
    title: 'Network',
    lead: 'The network that machines boot from. What is empty here is as the site says.',
    policies: [policy('pxe_iface', 'PXE interface of MAAS'), policy('pxe_vlan_vid', 'PXE VLAN'), policy('node_pxe_iface', 'PXE interface of nodes'), policy('strict_pxe_preflight', 'Check the PXE network first')],
  },
  {
    title: 'Image',
    lead: 'What is installed, and what to do when the installation stalls.',
    policies: [
      policy('distro_series', 'Image'),
      policy('architecture', 'Architecture'),
      policy('enable_deploy_retry_on_datasource_failure', 'Deploy again without a datasource'),
      policy('max_deploy_retry_attempts', 'Deploy again at most'),
    ],
  },
  {
    title: 'RoCE',
    lead: 'The fast network between GPUs. Its addresses are in the RoCE table of the site.',
    policies: [policy('enable_phase2_roce', 'Set up RoCE interfaces')],
  },
  {
    title: 'Hardware sync',
    lead: 'Deployed machines tell MAAS what is in them, so that a lost GPU is noticed.',
    policies: [policy('require_hw_sync', 'Hardware sync is required'), policy('hardware_sync_interval', 'Interval')],
  },
  {
    title: 'Enrollment',
    lead: 'How the agent of a new node proves who it is.',
    policies: [
      policy('enrollment_token_ttl_seconds', 'Life of the enrollment token'),
      policy('require_enrollment_address', 'Only from the address that MAAS gave'),
      policy('site_bootstrap_bundle_ref', 'Bundle for the first boot'),
    ],
  },
  {
    title: 'Turnover and erasing',
    lead: 'What has to be done to the disks before a machine goes to somebody else or leaves.',
    policies: [
      policy('minimum_erase', 'Least erasing at release'),
      policy('minimum_sanitization', 'Least sanitization of data disks'),
      policy('data_disks', 'Disks that do not carry the system'),
      policy('gpu_scrub', 'GPUs that the SKU has and nobody sees'),
      policy('gpu_scrub_nvidia', 'Weakest scrub of NVIDIA GPUs'),
      policy('gpu_scrub_amd', 'Weakest scrub of AMD GPUs'),
      policy('release_fallback_no_erase', 'Release without erasing as a last resort'),
      policy('remove_maas_record', 'Delete the record in MAAS at the end'),
    ],
  },
  {
    title: 'Reconciliation',
    lead: 'What may be put right without asking when MAAS shows something else than is expected.',
    policies: [policy('retired_machines', 'Machines of retired nodes'), policy('release_retired_machines', 'Release machines of retired nodes (older name)'), policy('return_healed_nodes', 'Return healed nodes to service')],
  },
  { title: 'Pace', lead: 'How much is done at once.', policies: [policy('batch_max_parallel', 'Machines of a batch at once')] },
  {
    title: 'Time limits',
    lead: 'Work that takes longer is parked with an explanation, and an operator decides.',
    policies: [
      policy('discovery_timeout_seconds', 'Discovery'),
      policy('commission_timeout_seconds', 'Commissioning'),
      policy('deploy_timeout_seconds', 'Deployment'),
      policy('hw_sync_seed_timeout_seconds', 'Setting up hardware sync'),
      policy('hw_sync_health_timeout_seconds', 'Healthy hardware sync'),
      policy('enrollment_timeout_seconds', 'Enrollment'),
      policy('release_timeout_seconds', 'Release'),
      policy('agent_timeout_seconds', 'Fetching a task'),
    ],
  },
]

export const policyFields = policyGroups.flatMap((g) => g.policies.map((p) => p.field))
