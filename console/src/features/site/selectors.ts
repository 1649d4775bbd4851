import type { Schemas } from '../../api/client'
import type { Rule } from './explained'
import { hostnameRule, ipRule, macRule } from './rules'

export type Override = Schemas['SitePowerOverrideView']

type Selector = Override['selector_type']

/** How an override finds its machine, in the order in which they are asked. */
export const selectors: Record<Selector, string> = { pxe_mac: 'PXE MAC', ipmi_ip: 'BMC address', hostname: 'Host name' }

export const selectorRules: Record<Selector, Rule> = { pxe_mac: macRule, ipmi_ip: ipRule, hostname: hostnameRule }

export const selectorExamples: Record<Selector, string> = { pxe_mac: '52:54:00:12:34:56', ipmi_ip: '10.0.0.7', hostname: 'c07u31' }
