// Package onboarding turns bare servers into schedulable nodes, durably: a
// request becomes a row, a workflow carries the row through the stages of
// package bringup, as package job does for all jobs, and a failure parks it with
// what was expected, what was seen and which actions are legal, until an operator
// acts.
//
// The row is what operators read, what guards their actions and what fences
// effects: every action of an operator makes its epoch grow, and a run of an
// older epoch can write nothing. The table of stages in stages.go drives
// behaviour, documentation and explanation alike; histories of workflows hold
// only what was decided, so the table may change while they are under way.
package onboarding
