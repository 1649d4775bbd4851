// Package bringup turns a bare server into a deployed machine that reports to
// MAAS and to the control plane: the stages of §4 of the lifecycle, each of
// which looks first, does the least that is missing, and looks again.
//
// It extends package job by what all jobs on machines have: Machine, Work and the
// failure classes with their causes. It holds no table. Each stage is declared in
// stage_<name>.go, with its texts, its codes and its function. A job (an
// onboarding, a reimage) runs these stages on its Work and keeps what they find
// out. Rules for every stage:
//
//   - it is safe to run again from its beginning, whatever an earlier run did;
//   - before an effect that cannot be taken back it reads the machine again and
//     asks the fence of its job;
//   - a write whose outcome is unknown is followed by a look; what cannot be
//     proven is a failure of class state_ambiguity, never a repetition;
//   - secrets are read inside a stage and leave it only towards the machine or
//     the secrets engine;
//   - it returns a *Failure of a declared code. Any other error gets its class from
//     Classify.
package bringup
