import { feature as access } from '../features/access'
import { feature as audit } from '../features/audit'
import { feature as certificates } from '../features/certificate'
import { feature as decommissions } from '../features/decommission'
import { feature as drift } from '../features/reconciliation'
import { feature as events } from '../features/events'
import { feature as fleet } from '../features/fleetview'
import { feature as lab } from '../features/lab'
import { feature as nodes } from '../features/node'
import { feature as onboardings } from '../features/onboarding'
import { feature as signers } from '../features/signer'
import { feature as sites } from '../features/site'
import { feature as skus } from '../features/sku'
import { feature as system } from '../features/system'
import { feature as tasks } from '../features/agenttask'
import type { Feature } from './features'

/** features is the console: a new capability adds its folder here. The order is that of the navigation. */
export const features: Feature[] = [fleet, nodes, sites, skus, lab, onboardings, decommissions, certificates, drift, tasks, events, audit, system, signers, access]
