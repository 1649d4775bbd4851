import { ProjectName } from '../allocation/ProjectName'
import { TenantName } from '../allocation/TenantName'
import type { Reservation } from './reservation'

/** Owner names whom a reservation is for. */
export function Owner({ of }: { of: Pick<Reservation, 'org_id' | 'project_id'> }) {
  return of.project_id ? <ProjectName id={of.project_id} /> : <TenantName id={of.org_id} />
}
