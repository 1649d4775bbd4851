// Package onboarding turns bare servers into schedulable nodes. A request
// becomes a row, and a durable workflow takes the row through the stages of
// package bringup; package job runs it as it runs all jobs. A failure parks the
// onboarding with what was expected, what was seen and which actions are legal,
// until an operator acts.
//
// Operators read the row, their actions are checked against it, and it fences
// effects: every action of an operator increases its epoch, and a run of an
// older epoch can write nothing. The table of stages in stages.go drives
// behaviour, documentation and explanations alike. Histories of workflows hold
// only decisions, so the table may change while workflows run.
package onboarding
