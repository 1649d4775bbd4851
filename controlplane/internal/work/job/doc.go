// Package job carries out jobs that go through stages and that operators can
// take hold of. A family of jobs brings its lifecycle, its table of stages, the
// columns that only its jobs have and what its stages do; the package brings the
// rows, the ledger and the claims of all jobs, how attempts are judged, recorded
// and fenced, what operators may do and what they are told. It knows no machine:
// what jobs on machines have in common is in package bringup.
//
// The row of a job is the authority. Its workflow runs one activity for each
// stage, which takes the stage up, carries it out and records what came of it;
// an operator's action is one transaction on the row, which supersedes whatever
// runs.
package job
