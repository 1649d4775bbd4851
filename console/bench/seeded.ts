import { up } from '../e2e/plane'
import { open } from './database'

export const batch = '0191e2f0-0000-7000-8000-00000000b001'

// Ten thousand nodes in racks of 32, of which some are not well, and a batch of a
// thousand onboardings that are under way. Their agents were heard of an hour from
// now, so that nobody finds them silent while it is measured.
const fleet = `
INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable, reported_agent_version, reported_agent_commit, certificate_not_after, first_poll_at, capabilities)
SELECT gen_random_uuid(), s, format('c%su%s', lpad((i / 32)::text, 3, '0'), lpad((i % 32 + 1)::text, 2, '0')), format('10.%s.%s.%s', i / 65536, i / 256 % 256, i % 256), 'h200-sxm-baremetal-8g', 8,
  (ARRAY['eu-1','eu-2','us-1'])[1 + i / 4000], 'maas', s = 'active', CASE WHEN i % 50 = 0 THEN 'dev' ELSE '1.0.0' END, 'abc1234', now() + interval '20 hours', now(), '{"gpu.vendor":"nvidia"}'
FROM (SELECT i, CASE WHEN i % 97 = 0 THEN 'offline' WHEN i % 61 = 0 THEN 'quarantined' WHEN i % 211 = 0 THEN 'retired' ELSE 'active' END::text AS s FROM generate_series(0, 9999) AS i) AS t;
INSERT INTO node_contacts (node_id, last_contact_at) SELECT id, now() + interval '1 hour' FROM nodes ON CONFLICT DO NOTHING`

const onboardings = `
INSERT INTO job_batches (id, family, total, requested_by, correlation_id) VALUES ('${batch}', 'onboarding', 1000, 'bench', 'bench');
INSERT INTO onboarding_batches (batch_id, site_id, profile_id, sku_id)
SELECT '${batch}', s.id, p.id, 'h200-sxm-baremetal-8g' FROM maas_sites s JOIN maas_site_profiles p ON p.site_id = s.id LIMIT 1;
INSERT INTO jobs (id, family, batch_id, site_id, subject, node_id, status, phase, current_stage, current_attempt, workflow_id, requested_by, correlation_id, admitted_at, started_at, stage_started_at)
SELECT ('0191e2f0-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'onboarding', b.id, b.site_id, format('d%su%s', lpad((i / 32)::text, 3, '0'), lpad((i % 32 + 1)::text, 2, '0')), gen_random_uuid(), 'running', 'working', 'wait_for_deployed', 1,
  'bench-' || i, 'bench', 'bench', now(), now(), now()
FROM node_onboarding_batches b, generate_series(1, 1000) AS i;
INSERT INTO onboarding_jobs (job_id, profile_id, sku_id, ipmi_ip)
SELECT ('0191e2f0-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, b.profile_id, b.sku_id, format('10.200.%s.%s', i / 256, i % 256)
FROM node_onboarding_batches b, generate_series(1, 1000) AS i`

export default async function setup() {
  const running = await up(['--rack', 'none'])
  process.env.GPUAAS_CONSOLE_URL = running.url
  process.env.GPUAAS_CONSOLE_TOKEN = running.token
  process.env.GPUAAS_CONSOLE_STATE = running.state
  const response = await fetch(`${running.url}/api/v1/admin/maas-sites`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${running.token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'bench', region_code: 'eu-1', api_base_url: 'http://127.0.0.1:9/MAAS', pxe_iface: 'eth0', node_pxe_iface: 'eth0', pxe_vlan_vid: 0 }),
  })
  if (!response.ok) throw new Error(`make a site: ${response.status} ${await response.text()}`)
  const db = open(running.state)
  db.say(fleet)
  db.say(onboardings)
  db.say('ANALYZE')
  await db.done()
  return running.down
}
